"""`medcoder kg`: build, look into and export knowledge graphs."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from medcoder.cli.run import (
    NOTHING_FOUND,
    AsJson,
    Graph,
    command,
    errors,
    out,
    print_json,
    progress_bar,
)
from medcoder.default import default_kg
from medcoder.errors import UsageError
from medcoder.ingest import ingest
from medcoder.kg import KG
from medcoder.kg.codes import split_curie
from medcoder.sources import SOURCES, open_source
from medcoder.text import language_tag
from medcoder.types import ReadOptions

app = typer.Typer(help="Build, look into and export knowledge graphs.", no_args_is_help=True)

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


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
    options = ReadOptions(
        languages=frozenset(map(language_tag, languages.split(","))) if languages else None,
        vocabularies=frozenset(_names(vocabularies)) if vocabularies else None,
        obsolete=obsolete,
        suppressed=suppressed,
        standard_only=standard_only,
        columns=tuple(_pair(entry) for entry in column or ()),
    )
    begin = time.perf_counter()
    with progress_bar() as progress:
        report = ingest(
            [open_source(source, options) for source in sources],
            to,
            merge_by=merge_by or (),
            strict=strict,
            memory=_bytes(memory),
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        print_json(report)
        return
    _show_report(report)
    size = sum(file.stat().st_size for file in to.iterdir()) / 1e6
    out().print(f"{KG.open(to)!r}", soft_wrap=True)
    out().print(f"{size:,.1f} MB in {time.perf_counter() - begin:.1f} s")


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
    graph = _open(kg)
    counts = graph.stats()
    if plot is not None:
        from medcoder.cli.pictures import draw_stats

        draw_stats(counts, plot, title=graph.path.name)
    if as_json:
        print_json(counts)
        return
    out().print(f"{graph!r}", soft_wrap=True)
    for name in ("languages", "vocabularies", "kinds", "types", "relations", "flags"):
        shown = {label: count for label, count in counts[name].items() if count}
        if shown:
            out().print(_count_table(name, shown, top))
    if plot is not None:
        out().print(f"drawn to {plot}", soft_wrap=True)


@app.command()
@command
def show(
    concept: Annotated[str, typer.Argument(metavar="ID", help="Id of a concept.")],
    kg: Graph = None,
    limit: Annotated[int, typer.Option(min=1, help="Relations shown of each direction.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a concept: names by language, types, codes, cross-references, relations."""
    graph = _open(kg)
    entry = _describe(graph, concept, limit)
    if as_json:
        print_json(entry)
        return
    console = out()
    console.print(f"[bold]{entry['preferred']}[/bold]  {entry['id']}", soft_wrap=True)
    for name in ("types", "flags", "codes", "xrefs"):
        if entry[name]:
            console.print(
                f"[dim]{name}[/dim]  {', '.join(map(_label, entry[name]))}", soft_wrap=True
            )
    terms = Table("language", "term", "vocabulary", "code", "kind", box=None, header_style="dim")
    for term in entry["terms"]:
        terms.add_row(term["language"], term["text"], term["source"], term["code"], term["kind"])
    console.print(terms)
    for edge in entry["relations"]:
        console.print(
            f"{_end(edge, 'head')} [dim]{edge['relation']}[/dim] {_end(edge, 'tail')}",
            soft_wrap=True,
        )


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
    graph = _open(kg)
    if term is not None:
        found = graph.find(term)
    else:
        parts = split_curie(code or "")
        if parts is None:
            raise UsageError(f"{code!r} is not VOCABULARY:CODE, such as ICD10CM:R51.9")
        found = graph.find_code(*parts, xrefs=xrefs)
    if as_json:
        print_json([_brief(graph, concept) for concept in found])
    elif found:
        table = Table("id", "preferred name", "types", box=None, header_style="dim")
        for concept in found:
            names = ", ".join(kind.name for kind in graph.types_of(concept))
            table.add_row(concept, graph.preferred(concept), names)
        out().print(table)
    else:
        errors().print(f"nothing found for {term or code!r} in {graph.path}", soft_wrap=True)
    if not found:
        raise typer.Exit(NOTHING_FOUND)


@app.command()
@command
def export(
    to: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    kg: Graph = None,
) -> None:
    """Write a graph as Parquet tables, which `table=FOLDER` reads back."""
    from medcoder.kg.export import export_parquet

    graph = _open(kg)
    with progress_bar() as progress:
        files = export_parquet(graph, to, progress=progress)
    for file, rows in files.items():
        out().print(f"{to / file}  {rows:,} rows", soft_wrap=True)


def _open(path: Path | None) -> KG:
    if path is not None:
        return KG.open(path)
    with progress_bar() as progress:
        return KG.open(default_kg(progress))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not equals:
        raise UsageError(f"--column {text!r}: write OURS=THEIRS, as in term=label")
    return ours, theirs


def _bytes(text: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMG]?)i?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"--memory {text!r} is not a size such as 2GB or 512MB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _show_report(report: dict[str, Any]) -> None:
    table = Table("read from", "rows", "kept", "left out", box=None, header_style="dim")
    for part in ("files", "graph"):
        for name, count in report[part].items():
            why = ", ".join(f"{reason} {rows:,}" for reason, rows in count["left_out"].items())
            label = name if part == "files" else f"[dim]graph:[/dim] {name}"
            table.add_row(label, f"{count['read']:,}", f"{count['kept']:,}", why)
    out().print(table)
    if report["merged"] or report["refused"]:
        out().print(f"{report['merged']:,} merged, {report['refused']:,} refused: see merges.tsv")


def _count_table(name: str, counts: dict[str, int], top: int) -> Table:
    title = f"{name} ({len(counts):,})" if len(counts) > top else name
    table = Table(title, "", box=None, header_style="bold")
    table.columns[1].justify = "right"
    for label, count in list(counts.items())[:top]:
        table.add_row(label or "(none)", f"{count:,}")
    return table


def _brief(graph: KG, concept: str) -> dict[str, Any]:
    return {
        "id": concept,
        "preferred": graph.preferred(concept),
        "types": [kind._asdict() for kind in graph.types_of(concept)],
    }


def _describe(graph: KG, concept: str, limit: int) -> dict[str, Any]:
    concept = graph.ids([graph.index(concept)])[0]
    edges = graph.neighbours(concept, limit=limit)
    names = {c: graph.preferred(c) for edge in edges for c in (edge.head, edge.tail)}
    return _brief(graph, concept) | {
        "flags": graph.flags_of(concept),
        "codes": [code._asdict() for code in graph.codes_of(concept)],
        "xrefs": [code._asdict() for code in graph.xrefs_of(concept)],
        "terms": [term._asdict() for term in graph.terms_of(concept)],
        "relations": [
            edge._asdict() | {"head_name": names[edge.head], "tail_name": names[edge.tail]}
            for edge in edges
        ],
    }


def _label(entry: Any) -> str:
    if isinstance(entry, dict):
        return ":".join(entry.values()) if "vocabulary" in entry else str(entry["name"])
    return str(entry)


def _end(edge: dict[str, str], end: str) -> str:
    return f"{edge[f'{end}_name']} ({edge[end]})"
