"""`medcoder bench`: figures for any model, and the paper's tables with its row in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from medcoder.cli import benches, parse
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
)
from medcoder.cli.benches import interruptible
from medcoder.cli.lines import line, print_json_lines
from medcoder.cli.listed import Listed
from medcoder.cli.run import AsJson, Graph, command, progress_bar
from medcoder.cli.systems import check_specs
from medcoder.errors import UsageError
from medcoder.files import write_text

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

    place = None if data is None else parse.place(data)
    entries = [benches.card_entry(name, place) for name in names or BENCHES]
    if as_json:
        print_json_lines(entries)
    elif names:
        for entry in entries:
            benches.show_card(entry)
    else:
        benches.show_cards(entries)


@app.command(cls=Listed, epilog=SPECS + RUN)
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
    check_specs(models)
    options = _options(queries, dictionary, epochs, k, frozen_only=frozen_only)
    place = _data(data, options)
    code = benches.run_all(
        models,
        benches.chosen(names, place, options),
        place,
        parse.place(to),
        seen=seen or (),
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
    from medcoder.evaluate.report import report as make

    folder = parse.place(folder)
    scores = benches.scores_of(folder)
    named = format or (SUFFIXES.get(to.suffix.lower()) if to is not None else None) or "md"
    text = make(
        scores,
        format=named,
        cases_of=benches.cases_of(folder, scores),
        complete=not measured_only,
    )
    _give(text, to)


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
    from medcoder.evaluate import wrong
    from medcoder.evaluate.report import write

    folder = parse.place(folder)
    file = benches.predictions_of(folder, model, name)
    suffix = to.suffix.lower() if to is not None else ""
    kind = format or ("jsonl" if suffix == ".jsonl" else SUFFIXES.get(suffix, "md"))
    if against is None:
        found = wrong.errors(file, split=split, language=language, unseen=unseen)[:top]
        table = wrong.errors_table(found, title=f"What {model} got wrong on {name}")
        _give(wrong.to_jsonl(found) if kind == "jsonl" else write([table], format=kind), to)
        return
    if split or language or unseen or top:
        raise UsageError("--against compares all of a bench: leave out the filters and --top")
    other = benches.predictions_of(folder, against, name)
    differing = wrong.difference(other, file)
    if kind == "jsonl":
        _give(wrong.to_jsonl([*differing.fixed, *differing.broken]), to)
        return
    title = f"{against} and {model} on {name}"
    compared = wrong.difference_table(differing, first=against, second=model, title=title)
    _give(write([compared], format=kind), to)


@app.command(cls=Listed, epilog=SPECS)
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
    folder = parse.place(folder)
    place = folder / FIGURES if to is None else parse.place(to)
    check_specs(models or [])
    _draw(folder, place, models or [], kg=kg, seed=seed, threads=threads)


@app.command(cls=Listed, epilog=SPECS + PAPER)
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
    from medcoder.evaluate.report import report as make

    check_specs(models)
    options = _options(None, None, epochs, None, frozen_only=frozen_only)
    place, to = _data(data, options), parse.place(to)
    names = benches.chosen(None, place, options)
    code = benches.run_all(
        models,
        names,
        place,
        to,
        seen=seen or (),
        threads=threads,
        options=options,
        pinned=not other_data,
        seed=seed,
    )
    scores = benches.scores_of(to)
    for format, file in REPORTS.items():
        text = make(scores, format=format, cases_of=benches.cases_of(to, scores), complete=True)
        write_text(to / file, text)
        line(str(to / file))
    _draw(to, to / FIGURES, models, kg=kg, seed=seed, threads=threads)
    missing = [name for name in BENCHES if name not in names]
    if missing:
        line((f"no data of: {', '.join(missing)}; medcoder bench list NAME says what it is", "dim"))
    if code:
        raise typer.Exit(code)


def _draw(
    folder: Path,
    to: Path,
    models: Sequence[str],
    *,
    kg: Path | None,
    seed: int,
    threads: int | None,
) -> None:
    from medcoder.cli.figures import draw_all

    with interruptible(), progress_bar() as progress:
        draw_all(folder, to, models, kg=kg, seed=seed, threads=threads, progress=progress)


def _options(
    queries: Path | None,
    dictionary: Path | None,
    epochs: int | None,
    k: int | None,
    *,
    frozen_only: bool,
) -> dict[str, Any]:
    """Options of benches that were given."""
    given: dict[str, Any] = {
        "queries": None if queries is None else str(parse.place(queries)),
        "dictionary": None if dictionary is None else str(parse.place(dictionary)),
        "epochs": epochs,
        "k": k,
        "modes": ["frozen"] if frozen_only else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _data(data: Path | None, options: dict[str, Any]) -> Path:
    if data is None and "queries" in options:
        return Path()  # all that is read was named
    if data is None:
        raise UsageError("--data is missing: the folder with the data of the benches")
    place = parse.place(data)
    if not place.is_dir():
        raise UsageError(f"--data {data}: there is no such folder")
    return place


def _give(text: str, to: Path | None) -> None:
    if to is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        write_text(parse.place(to), text)
