"""`medcoder train`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from medcoder.cli.command import INTERRUPTED, command, progress_bar
from medcoder.cli.console import errors, line, print_json
from medcoder.cli.options import AsJson, name_list, user_path
from medcoder.errors import MissingExtra
from medcoder.train.config import load

if TYPE_CHECKING:
    from medcoder.train.log import Report
    from medcoder.train.session import Run
    from medcoder.types import Progress as Doing


@command
def train(
    kg: Annotated[Path, typer.Option("--kg", help="Directory of the graph.")],
    init: Annotated[str, typer.Option(help="Hugging Face model to start from, folder or name.")],
    to: Annotated[Path, typer.Option("--out", help="Directory of the run.")],
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, as in: sampler.k=64.")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Draw terms of these alone, as in: en,es.")
    ] = None,
    extra: Annotated[
        Path | None, typer.Option(help="Table of extra terms: term, concept, language, weight.")
    ] = None,
    teacher: Annotated[
        list[str] | None,
        typer.Option(
            help="A model, exported or not, or a .npy of vectors: "
            "PATH[,weight=20][,languages=en+fr]."
        ),
    ] = None,
    evaluate: Annotated[
        Path | None,
        typer.Option(help="Table of queries: query, concept. The best model on it is kept."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write event files for TensorBoard.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure a few updates and print the plan.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a term encoder on a graph by dual contrastive learning."""
    try:
        from medcoder.train.log import all_steps
        from medcoder.train.session import open_run, speaking
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"training needs {error.name}. Install it with: pip install 'medcoder[train]'"
        ) from error
    kg, to = user_path(kg), user_path(to)
    read = load(config, settings or ())
    tags = name_list("--languages", languages)
    if tags is not None:
        read = speaking(read, tags)
    with progress_bar() as preparing:
        run = open_run(
            kg,
            init,
            to,
            read,
            extra=extra,
            teachers=teacher or (),
            evaluate=evaluate,
            progress=preparing,
        )
    if dry_run:
        _show_plan(run, as_json=as_json)
        return
    try:
        with _bar(all_steps(read)) as (report, doing):
            model = run.train(
                to, resume=resume, tensorboard=tensorboard, progress=report, doing=doing
            )
    except KeyboardInterrupt as error:
        line("interrupted: go on from the checkpoint with --resume", console=errors())
        raise typer.Exit(INTERRUPTED) from error
    made = {"model": model} | ({"best": to / "best"} if evaluate else {})
    if as_json:
        print_json({name: str(path) for name, path in made.items()})
        return
    for name, path in made.items():
        line(f"{name} in {path}")


def _show_plan(run: Run, *, as_json: bool) -> None:
    from medcoder.train.session import plan

    figures = plan(run)
    if as_json:
        print_json(figures)
        return
    for name, value in figures.items():
        shown = f"{value:,.4g}" if isinstance(value, float) else value
        shown = f"{shown:,}" if isinstance(shown, int) else shown
        line(f"{name.replace('_', ' '):22} {shown}")


@contextmanager
def _bar(steps: int) -> Iterator[tuple[Report, Doing]]:
    """Loss, hard pairs, score, speed and time left, on standard error."""
    console = errors()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task("training", total=steps)

    last: dict[str, float] = {}

    def report(metrics: dict[str, float]) -> None:
        last.update(metrics)
        text = f"score {last['eval.score']:.4f}  " if "eval.score" in last else ""
        if "loss" in last:
            text += (
                f"loss {last['loss']:.4f}  hard pairs {last['positives']:.1f}+"
                f"{last['negatives']:.1f}  {last['terms_per_second']:,.0f} terms/s"
            )
        bar.update(task, completed=last["step"], description=text)

    def doing(what: str, done: int, total: int) -> None:
        bar.update(task, description=f"{what} {done:,}/{total:,}")

    with bar:
        yield report, doing
