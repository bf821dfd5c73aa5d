"""What runs around every command: errors to exit codes, interrupts, progress."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TextIO

import typer
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.progress import TimeRemainingColumn as TimeLeftColumn

from medcoder.cli.console import errors, line
from medcoder.errors import DiskFull, MedcoderError, UsageError
from medcoder.files import no_room

if TYPE_CHECKING:
    from medcoder.types import Progress

P = ParamSpec("P")

NOTHING_FOUND = 1
INTERRUPTED = 130
EXIT_CODES = """
[bold]Exit codes[/bold]

  0 done, 1 nothing found, 2 wrong usage, 3 bad input,

  4 missing or damaged directory, 5 disk full, 6 training diverged,

  7 somebody else decided meanwhile, 130 interrupted
"""


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Show errors as one line and exit with their code; an interrupt leaves with 130."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            with _reader_may_leave(), _shown_errors():
                function(*args, **kwargs)
        finally:
            signal.signal(signal.SIGTERM, before)

    return run


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error, shown where a person is looking."""
    console = errors()
    bar = Bar(
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


@contextlib.contextmanager
def _shown_errors() -> Iterator[None]:
    try:
        yield
    except MedcoderError as error:
        _fail(str(error), error.exit_code, error)
    except KeyboardInterrupt as error:
        line("interrupted: nothing was kept of what was being written", console=errors())
        raise typer.Exit(INTERRUPTED) from error
    except BrokenPipeError:
        raise
    except Exception as error:
        where = getattr(error, "filename", None)
        if (full := no_room(error)) is not None:
            remedy = "Free some space, or write to another disk"
            _fail(
                f"{where or 'no room left to write'}: {full}. {remedy}", DiskFull.exit_code, error
            )
        if not isinstance(error, OSError):
            raise
        remedy = "Check the path, and that you may read and write there"
        message = f"{error.strerror or error}. {remedy}"
        _fail(f"{where}: {message}" if where else message, UsageError.exit_code, error)


@contextlib.contextmanager
def whole_output() -> Iterator[None]:
    """Write out what was printed before the process ends, and say where that fails.

    The interpreter would leave with a code of its own.
    """
    code: object = 0
    try:
        with _reader_may_leave():
            try:
                yield
            except SystemExit as leaving:
                code = leaving.code
                raise
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
    except OSError as error:
        _forget(sys.stdout)
        kind = UsageError if no_room(error) is None else DiskFull
        if code != kind.exit_code:  # else it is said already
            _say(f"the output cannot be written: {error.strerror or error}")
        sys.exit(kind.exit_code)
    finally:
        with contextlib.suppress(OSError):
            if sys.stderr is not None:
                sys.stderr.flush()


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Where the reader of our output has left, as `head` does, leave quietly."""
    try:
        yield
    except BrokenPipeError:
        _forget(sys.stdout, sys.stderr)


def _forget(*streams: TextIO | None) -> None:
    """Let what was not written yet, and all that comes, go nowhere."""
    for stream in filter(None, streams):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(message: str) -> None:
    """An error; where it cannot be shown, there is still the exit code."""
    try:
        line(("error:", "red"), f" {message}", console=errors())
    except BrokenPipeError:
        raise
    except OSError:
        _forget(sys.stderr)


def _fail(message: str, code: int, error: Exception) -> NoReturn:
    _say(message)
    raise typer.Exit(code) from error


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
