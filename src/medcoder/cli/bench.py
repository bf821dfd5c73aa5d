"""`medcoder bench`: figures for any model, and the paper's tables with its row in them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.cli.bench_options import (
    ERRORS,
    PAPER,
    RUN,
    SPECS,
    Data,
    Epochs,
    Force,
    Frozen,
    K,
    Models,
    Names,
    OtherData,
    Queries,
    Resamples,
    Seed,
    SeenIn,
    Terms,
    Threads,
    To,
    data_folder,
    given_systems,
    options_of_benches,
)
from medcoder.cli.command import INTERRUPTED, command, progress_bar
from medcoder.cli.console import add_row, line, new_table, out, print_json_lines
from medcoder.cli.console import errors as error_console
from medcoder.cli.open import open_graph
from medcoder.cli.options import AsJson, Graph, MultiValue, name_list, user_path
from medcoder.errors import UsageError
from medcoder.files import write_text

if TYPE_CHECKING:
    from medcoder.evaluate.bench_runs import Outcome

app = typer.Typer(
    help="Measure any model on the benches of the paper, and on your own.", no_args_is_help=True
)
SUFFIXES = {".md": "md", ".tex": "latex", ".html": "html", ".htm": "html"}
REPORTS = {"md": "report.md", "latex": "report.tex", "html": "report.html"}
FIGURES = "figures"


@app.command("list")
@command
def list_benches(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Show all of these cards.")
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show what benches there are, what each needs, where that comes from, and if it is there."""
    from medcoder.evaluate import BENCHES
    from medcoder.evaluate.bench_runs import describe_bench

    folder = None if data is None else user_path(data)
    entries = [describe_bench(name, folder) for name in names or BENCHES]
    if as_json:
        print_json_lines(entries)
    elif names:
        for entry in entries:
            _show_card(entry)
    else:
        _show_cards(entries)


@app.command(cls=MultiValue, epilog=SPECS + RUN)
@command
def run(
    models: Models,
    to: To,
    data: Data = None,
    names: Names = None,
    seen: SeenIn = None,
    queries: Queries = None,
    dictionary: Terms = None,
    epochs: Epochs = None,
    frozen_only: Frozen = False,
    k: K = None,
    other_data: OtherData = False,
    resamples: Resamples = 1000,
    seed: Seed = 0,
    threads: Threads = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure models on benches. What was done for the same model and data is kept."""
    options = options_of_benches(queries, dictionary, epochs, k, frozen_only=frozen_only)
    code, _ = _run(
        models,
        names,
        data,
        user_path(to),
        seen=seen,
        threads=threads,
        as_json=as_json,
        options=options,
        pinned=not other_data,
        resamples=resamples,
        seed=seed,
        force=force,
    )
    if code:
        raise typer.Exit(code)


@app.command()
@command
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out of runs.")],
    format: Annotated[
        str | None, typer.Option(help="md, latex or html. Default: by the name of --out, or md.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--out", help="File. Default: print it.")] = None,
    measured_only: Annotated[
        bool, typer.Option("--measured-only", help="Leave out tables with quoted rows alone.")
    ] = False,
) -> None:
    """Show the paper's tables, with its own rows marked as quoted and yours among them."""
    from medcoder.evaluate.report import run_report

    named = format or (SUFFIXES.get(to.suffix.lower()) if to is not None else None) or "md"
    _give(run_report(user_path(folder), format=named, complete=not measured_only), to)


@app.command(epilog=ERRORS)
@command
def errors(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out of runs.")],
    model: Annotated[str, typer.Option(help="The model, by the name of its row.")],
    name: Annotated[str, typer.Option("--bench", help="The bench.")],
    against: Annotated[
        str | None, typer.Option(help="Another model: only what the two got differently.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only this part of the bench.")] = None,
    language: Annotated[str | None, typer.Option(help="Only queries in this language.")] = None,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="Only queries that no named graph holds.")
    ] = False,
    top: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    format: Annotated[str | None, typer.Option(help="md, latex, html or jsonl.")] = None,
    to: Annotated[Path | None, typer.Option("--out", help="File. Default: print it.")] = None,
) -> None:
    """Show what a model got wrong, surest mistakes first; or where two models differ."""
    from medcoder.evaluate import error_analysis as analysis
    from medcoder.evaluate.report import write
    from medcoder.evaluate.results import predictions_of

    folder = user_path(folder)
    file = predictions_of(folder, model, name)
    suffix = to.suffix.lower() if to is not None else ""
    kind = format or ("jsonl" if suffix == ".jsonl" else SUFFIXES.get(suffix, "md"))
    if against is None:
        mistakes = analysis.errors(file, split=split, language=language, unseen=unseen)[:top]
        table = analysis.errors_table(mistakes, title=f"What {model} got wrong on {name}")
        _give(analysis.to_jsonl(mistakes) if kind == "jsonl" else write([table], format=kind), to)
        return
    if split or language or unseen or top:
        raise UsageError("--against compares all of a bench: leave out the filters and --top")
    differing = analysis.difference(predictions_of(folder, against, name), file)
    if kind == "jsonl":
        _give(analysis.to_jsonl([*differing.fixed, *differing.broken]), to)
        return
    title = f"{against} and {model} on {name}"
    compared = analysis.difference_table(differing, first=against, second=model, title=title)
    _give(write([compared], format=kind), to)


@app.command(cls=MultiValue, epilog=SPECS)
@command
def figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out of runs.")],
    models: Annotated[
        list[str] | None,
        typer.Option("--models", metavar="SPEC...", help="For t-SNE, a panel each; see below."),
    ] = None,
    kg: Graph = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="Folder. Default: figures, in DIR.")
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Draw t-SNE, reliability, risk and coverage, and languages by corpora, as PNG and SVG."""
    from medcoder.evaluate.systems import check_specs

    folder = user_path(folder)
    check_specs(models or [])
    drawn = folder / FIGURES if to is None else user_path(to)
    _draw(folder, drawn, models or [], kg=kg, seed=seed, threads=threads)


@app.command(cls=MultiValue, epilog=SPECS + PAPER)
@command
def paper(
    models: Models,
    to: To,
    data: Data = None,
    seen: SeenIn = None,
    kg: Graph = None,
    epochs: Epochs = None,
    frozen_only: Frozen = False,
    other_data: OtherData = False,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Make all tables and figures: every bench whose data is there, the reports, the plots."""
    from medcoder.evaluate import BENCHES
    from medcoder.evaluate.report import run_report

    options = options_of_benches(None, None, epochs, None, frozen_only=frozen_only)
    to = user_path(to)
    code, names = _run(
        models,
        None,
        data,
        to,
        seen=seen,
        threads=threads,
        options=options,
        pinned=not other_data,
        seed=seed,
    )
    for format, file in REPORTS.items():
        write_text(to / file, run_report(to, format=format))
        line(str(to / file))
    _draw(to, to / FIGURES, models, kg=kg, seed=seed, threads=threads)
    missing = [name for name in BENCHES if name not in names]
    if missing:
        line((f"no data of: {', '.join(missing)}; medcoder bench list NAME says what it is", "dim"))
    if code:
        raise typer.Exit(code)


# Running and drawing


def _run(
    models: Sequence[str],
    names: Sequence[str] | None,
    data: Path | None,
    to: Path,
    *,
    seen: Sequence[Path] | None,
    threads: int | None,
    options: Mapping[str, Any],
    as_json: bool = False,
    **settings: Any,
) -> tuple[int, list[str]]:
    """Show each outcome as it comes; the exit code of the first failure, and the benches."""
    from medcoder.evaluate.bench_runs import Seen, choose_benches, run_benches
    from medcoder.evaluate.systems import check_specs

    check_specs(models)
    folder = data_folder(data, options)
    wanted = [bench for name in names or () for bench in name_list("--benches", name) or ()]
    chosen = choose_benches(wanted, folder, options)
    code = 0
    with _interruptible(), progress_bar() as progress:
        outcomes = run_benches(
            given_systems(models, to, threads=threads, progress=progress),
            chosen,
            folder,
            to,
            seen=Seen([user_path(path) for path in seen]) if seen else None,
            options=options,
            progress=progress,
            **settings,
        )
        for outcome in outcomes:
            _show_outcome(outcome, as_json=as_json)
            if outcome.error is not None:
                code = code or outcome.error.exit_code
    return code, chosen


def _draw(
    folder: Path,
    to: Path,
    models: Sequence[str],
    *,
    kg: Path | None,
    seed: int,
    threads: int | None,
) -> None:
    from medcoder.evaluate.plots import draw_figures
    from medcoder.evaluate.systems import is_normalizer

    vectors = [spec for spec in models if not is_normalizer(spec)]
    with _interruptible(), progress_bar() as progress, contextlib.ExitStack() as stack:
        figures = draw_figures(
            folder,
            to,
            given_systems(vectors, to, threads=threads, progress=progress),
            kg=stack.enter_context(open_graph(kg)) if vectors else None,
            seed=seed,
            progress=progress,
        )
        for figure in figures:
            if figure.kept:
                line((f"{to / figure.name}: kept", "dim"))
            for file in () if figure.kept else figure.files:
                line(str(file))


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """What was done before an interrupt is kept, and the same command goes on."""
    try:
        yield
    except KeyboardInterrupt as error:
        line("interrupted: the same command goes on from here", console=error_console())
        raise typer.Exit(INTERRUPTED) from error


def _give(text: str, to: Path | None) -> None:
    if to is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        write_text(user_path(to), text)


# Showing


def _show_outcome(outcome: Outcome, *, as_json: bool) -> None:
    label = (f"{outcome.system}, {outcome.bench}: ", "bold")
    if outcome.error is not None:
        line(label, ("error:", "red"), f" {outcome.error}", console=error_console())
    elif as_json:
        print_json_lines(asdict(score) for score in outcome.scores)
    elif outcome.state == "not for it":
        line((f"{label[0]}not for this kind of model", "dim"))
    else:
        done = outcome.scores and outcome.state == "done"
        seconds = f"  {outcome.scores[0].seconds:,.1f} s" if done else "  kept"
        line(label, ", ".join(outcome.headline) or "nothing", (seconds, "dim"))


def _show_cards(entries: Sequence[Mapping[str, Any]]) -> None:
    """A line for each."""
    table = new_table("bench", "what", "metrics", "licence", "found")
    marks = {None: "", True: "yes", False: "no"}
    for entry in entries:
        metrics = ", ".join(entry["metrics"])
        found = marks[entry["found"]]
        add_row(table, entry["name"], entry["title"], metrics, entry["licence"], found)
    out().print(table)


def _show_card(entry: Mapping[str, Any]) -> None:
    """All of it."""
    line((f"{entry['title']}", "bold"), f"  {entry['name']}")
    line(entry["about"])
    for needed in entry["needs"]:
        columns = ", ".join(needed["columns"])
        rows = f"; {needed['rows']:,} rows" if needed["rows"] is not None else ""
        pinned = f"; sha256 {needed['sha256']}" if needed["sha256"] else ""
        line(("needs  ", "dim"), f"{needed['path']}: {columns}{rows}{pinned}")
    for name in ("origin", "licence", "reference"):
        if entry[name]:
            line((f"{name}  ", "dim"), entry[name])
    if entry["found"] is not None:
        line(("found  ", "dim"), "yes" if entry["found"] else "no")
