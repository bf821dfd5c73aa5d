"""What every command shares: errors to exit codes, progress, output for people and programs."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeftColumn

from medcoder.errors import MedcoderError
from medcoder.ingest import Progress as Report

P = ParamSpec("P")

NOTHING_FOUND = 1
INTERRUPTED = 130
EXIT_CODES = """
[bold]Exit codes[/bold]

  0 done, 1 nothing found, 2 wrong usage, 3 bad input,

  4 missing or damaged directory, 5 disk full, 130 interrupted
"""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Graph = Annotated[
    Path | None,
    typer.Option(
        "--kg",
        envvar="MEDCODER_KG",
        help="Directory of the graph. Without it: the embedded one, built on first use.",
    ),
]


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Show errors as one line and exit with their code; an interrupt leaves with 130."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            function(*args, **kwargs)
        except MedcoderError as error:
            errors().print(f"[red]error:[/red] {_plain(str(error))}", soft_wrap=True)
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            errors().print("interrupted: nothing was kept of what was being written")
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError:  # the reader of our output has left: so do we
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


def out() -> Console:
    return Console(highlight=False)


def errors() -> Console:
    return Console(stderr=True, highlight=False)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


@contextlib.contextmanager
def progress_bar() -> Iterator[Report]:
    """A bar on standard error, shown where a person is looking."""
    console = errors()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeLeftColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def report(what: str, done: int, total: int) -> None:
        if what not in tasks:
            for task in tasks.values():
                bar.update(task, visible=False)
            tasks[what] = bar.add_task(what)
        bar.update(tasks[what], completed=done, total=max(total, 1))

    with bar:
        yield report


def _plain(text: str) -> str:
    """Text in which square brackets are not markup."""
    return text.replace("[", r"\[")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
