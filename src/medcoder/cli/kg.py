"""`medcoder kg`: build, look into and export knowledge graphs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from medcoder.cli.command import NOTHING_FOUND, command, progress_bar
from medcoder.cli.console import errors, line, print_json
from medcoder.cli.open import open_graph
from medcoder.cli.options import (
    AsJson,
    Graph,
    byte_size,
    column_pair,
    name_list,
    only_for,
    user_path,
)
from medcoder.cli.render import brief, describe, show_concept, show_counts, show_found, show_report
from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.sources import SOURCES, open_source
from medcoder.text import language_tag
from medcoder.types import Code, ReadOptions

app = typer.Typer(help="Build, look into and export knowledge graphs.", no_args_is_help=True)

_BUILD_EXAMPLES = f"""
[bold]Sources[/bold]

  {", ".join(sorted(SOURCES))}

[bold]Examples[/bold]

  medcoder kg build open --out open.kg

  medcoder kg build umls=2026AA --languages en,es --out umls.kg

  medcoder kg build obo=hp.obo obo=mondo.obo --merge-by xrefs --out rare.kg

  medcoder kg build table=terms.csv --column term=label --out own.kg
"""


@app.command(epilog=_BUILD_EXAMPLES)
@command
def build(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE=PATH...", help="What to read.")],
    to: Annotated[Path, typer.Option("--out", help="Directory to make.")],
    languages: Annotated[
        str | None, typer.Option(help="Only terms in these, as in: en,es,ja.")
    ] = None,
    vocabularies: Annotated[
        str | None, typer.Option(help="Only these source vocabularies, as in: SNOMEDCT_US,MSH.")
    ] = None,
    obsolete: Annotated[
        bool, typer.Option("--obsolete", help="Take obsolete and inactive rows too.")
    ] = False,
    suppressed: Annotated[
        bool, typer.Option("--suppressed", help="Take rows that editors suppressed.")
    ] = False,
    standard_only: Annotated[
        bool, typer.Option("--standard-only", help="OMOP: standard concepts only.")
    ] = False,
    column: Annotated[
        list[str] | None, typer.Option(help="Table: our name = the file's, as in: term=label.")
    ] = None,
    merge_by: Annotated[
        list[str] | None,
        typer.Option(
            help="Join concepts of different vocabularies: 'xrefs' where one refers to the other, "
            "or a vocabulary (UMLS) where both refer to the same code of it."
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Relations to absent concepts or to itself are an error."),
    ] = False,
    memory: Annotated[str, typer.Option(help="What buffers may take.")] = "2GB",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the graph that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build a graph directory from releases of terminologies."""
    from medcoder.kg.build import build_kg

    only_for("--column", column, "table", sources)
    only_for("--standard-only", standard_only, "omop", sources)
    tags = name_list("--languages", languages)
    kept = name_list("--vocabularies", vocabularies)
    merging = [name for entry in merge_by or () for name in name_list("--merge-by", entry) or ()]
    options = ReadOptions(
        languages=None if tags is None else frozenset(map(language_tag, tags)),
        vocabularies=None if kept is None else frozenset(kept),
        obsolete=obsolete,
        suppressed=suppressed,
        standard_only=standard_only,
        columns=tuple(map(column_pair, column or ())),
    )
    to, begin = user_path(to), time.perf_counter()
    with progress_bar() as progress:
        report = build_kg(
            [open_source(source, options) for source in sources],
            to,
            merge_by=merging,
            strict=strict,
            memory=byte_size(memory),
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        print_json(report)
        return
    show_report(report, merging=bool(merging))
    size = sum(file.stat().st_size for file in to.iterdir()) / 1e6
    line(repr(KG.open(to)))
    line(f"{size:,.1f} MB in {time.perf_counter() - begin:.1f} s")


@app.command()
@command
def stats(
    kg: Graph = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of each table.")] = 12,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a picture: a .png, .svg or .pdf file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count concepts, terms and relations, by language, vocabulary, type and relation."""
    with open_graph(kg) as graph:
        counts = graph.stats()
    if plot is not None:
        from medcoder.cli.render import draw_stats

        plot = user_path(plot)
        draw_stats(counts, plot, title=graph.path.name)
    if as_json:
        print_json(counts)
        return
    line(repr(graph))
    show_counts(counts, top)
    if plot is not None:
        line(f"drawn to {plot}")


@app.command()
@command
def show(
    concept: Annotated[str, typer.Argument(metavar="ID", help="Id of a concept.")],
    kg: Graph = None,
    limit: Annotated[int, typer.Option(min=1, help="Relations shown of each direction.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a concept: names by language, types, codes, cross-references, relations."""
    with open_graph(kg) as graph:
        entry = describe(graph, concept, limit)
    if as_json:
        print_json(entry)
    else:
        show_concept(entry)


@app.command()
@command
def find(
    term: Annotated[str | None, typer.Argument(metavar="STRING", help="A term.")] = None,
    code: Annotated[
        str | None, typer.Option(metavar="VOCABULARY:CODE", help="A code, as in: ICD10CM:R51.9.")
    ] = None,
    xrefs: Annotated[
        bool, typer.Option("--xrefs", help="With --code: also concepts that refer to the code.")
    ] = False,
    kg: Graph = None,
    as_json: AsJson = False,
) -> None:
    """Find concepts by a term, but for case, accents and punctuation, or by a code."""
    if (term is None) == (code is None):
        raise UsageError("give either a string to find or --code VOCABULARY:CODE")
    if xrefs and code is None:
        raise UsageError("--xrefs goes with --code VOCABULARY:CODE")
    parts = Code.parse(code or "")
    if code is not None and parts is None:
        raise UsageError(f"{code!r} is not VOCABULARY:CODE, such as ICD10CM:R51.9")
    with open_graph(kg) as graph:
        found = graph.find_code(*parts, xrefs=xrefs) if parts else graph.find(term or "")
        entries = [brief(graph, concept) for concept in found]
    if as_json:
        print_json(entries)
    elif entries:
        show_found(entries)
    else:
        sought = term if code is None else code
        line(f"nothing found for {sought!r} in {graph.path}", console=errors())
    if not entries:
        raise typer.Exit(NOTHING_FOUND)


@app.command()
@command
def export(
    to: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    kg: Graph = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the export that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a graph as Parquet tables, which `table=FOLDER` reads back."""
    from medcoder.kg.export import export_parquet

    to = user_path(to)
    with open_graph(kg) as graph, progress_bar() as progress:
        files = export_parquet(graph, to, overwrite=overwrite, progress=progress)
    if as_json:
        print_json(files)
        return
    for file, rows in files.items():
        line(f"{to / file}  {rows:,} rows")
