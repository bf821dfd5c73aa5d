"""`medcoder kg`: build, look into and export knowledge graphs."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from medcoder.bundled.graph import keep_fonts_at_home
from medcoder.cli.command import NOTHING_FOUND, command, progress_bar
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json
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
from medcoder.errors import MissingExtra, UsageError
from medcoder.kg import KG
from medcoder.kg.sources import SOURCES, open_source
from medcoder.text import language_tag
from medcoder.types import Code, ReadOptions

app = typer.Typer(help="Build, look into and export knowledge graphs.", no_args_is_help=True)

COUNTED = ("languages", "vocabularies", "kinds", "types", "relations", "flags")
_PANELS = ("languages", "vocabularies", "types", "relations")
_BARS = 14
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
    any_names: Annotated[
        str | None,
        typer.Option(help="Vocabularies whose names may be numbers or units, as in: UCUM; or all."),
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
            any_names=name_list("--any-names", any_names) or (),
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
        concepts = graph.find_code(*parts, xrefs=xrefs) if parts else graph.find(term or "")
        entries = [brief(graph, concept) for concept in concepts]
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


def show_report(report: dict[str, Any], *, merging: bool) -> None:
    """What a build read, kept and left out."""
    table = new_table("read from", "rows", "kept", "left out")
    for part in ("files", "graph"):
        for name, count in report[part].items():
            why = ", ".join(f"{reason} {rows:,}" for reason, rows in count["left_out"].items())
            label = name if part == "files" else f"graph: {name}"
            add_row(table, label, f"{count['read']:,}", f"{count['kept']:,}", why)
    out().print(table)
    if merging:
        line(f"{report['merged']:,} merged, {report['refused']:,} refused: see merges.tsv")


def show_counts(counts: dict[str, Any], top: int) -> None:
    """Tables of the most frequent labels."""
    for name in COUNTED:
        shown = {label: count for label, count in counts[name].items() if count}
        if not shown:
            continue
        title = f"{name} ({len(shown):,})" if len(shown) > top else name
        table = new_table(title, "", style="bold")
        table.columns[1].justify = "right"
        for label, count in list(shown.items())[:top]:
            add_row(table, label or "(none)", f"{count:,}")
        out().print(table)


def show_concept(entry: dict[str, Any]) -> None:
    line((entry["preferred"], "bold"), f"  {entry['id']}")
    for name in ("types", "flags", "codes", "xrefs"):
        if entry[name]:
            line((name, "dim"), f"  {', '.join(map(_label, entry[name]))}")
    table = new_table("language", "term", "vocabulary", "code", "kind")
    for term in entry["terms"]:
        add_row(table, term["language"], term["text"], term["source"], term["code"], term["kind"])
    out().print(table)
    for edge in entry["relations"]:
        line(f"{_end(edge, 'head')} ", (edge["relation"], "dim"), f" {_end(edge, 'tail')}")


def show_found(entries: list[dict[str, Any]]) -> None:
    table = new_table("id", "preferred name", "types")
    for entry in entries:
        add_row(table, entry["id"], entry["preferred"], ", ".join(map(_label, entry["types"])))
    out().print(table)


def brief(graph: KG, concept: str) -> dict[str, Any]:
    """Id, name and types of a concept."""
    return {
        "id": concept,
        "preferred": graph.preferred(concept),
        "types": [kind._asdict() for kind in graph.types_of(concept)],
    }


def describe(graph: KG, concept: str, limit: int) -> dict[str, Any]:
    """All of a concept, and at most `limit` relations of each direction."""
    concept = graph.ids([graph.index(concept)])[0]
    edges = graph.neighbours(concept, limit=limit)
    names = {c: graph.preferred(c) for edge in edges for c in (edge.head, edge.tail)}
    return brief(graph, concept) | {
        "flags": graph.flags_of(concept),
        "codes": [code._asdict() for code in graph.codes_of(concept)],
        "xrefs": [code._asdict() for code in graph.xrefs_of(concept)],
        "terms": [term.as_dict() for term in graph.terms_of(concept)],
        "relations": [
            edge._asdict() | {"head_name": names[edge.head], "tail_name": names[edge.tail]}
            for edge in edges
        ],
    }


def _label(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    if "vocabulary" not in entry:
        return str(entry["name"] or entry["id"])
    prefix, code = f"{entry['vocabulary']}:", str(entry["code"])
    return code if code.startswith(prefix) else prefix + code


def _end(edge: dict[str, str], end: str) -> str:
    return f"{edge[f'{end}_name']} ({edge[end]})"


def draw_stats(counts: dict[str, Any], path: Path, *, title: str) -> None:
    """Bars of the most frequent labels, on a logarithmic scale."""
    keep_fonts_at_home()
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "a picture needs matplotlib. Install it with: pip install 'medcoder[eval]'"
        ) from error
    figure = Figure(figsize=(12, 8), layout="constrained")
    known = figure.canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in known:
        raise UsageError(f"{path}: a picture is a file such as .png, .svg or .pdf")
    for axes, name in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
        rows = list(counts[name].items())[:_BARS]
        labels = [_short(label) for label, _ in rows]
        values = [value for _, value in rows]
        bars = axes.barh(range(len(rows)), values, color="#3b6ea5")
        axes.bar_label(bars, [f"{value:,}" for value in values], padding=3, fontsize=7)
        axes.set_yticks(range(len(rows)), labels, fontsize=8, parse_math=False)
        axes.set_ylim(max(len(rows), 6) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.set_xlim(1, 8 * max(values, default=1))
        axes.set_title(f"{name} ({len(counts[name]):,})", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{title}: {counts['concepts']:,} concepts, {counts['terms']:,} terms, "
        f"{counts['edges']:,} relations",
        fontsize=12,
        parse_math=False,  # a dollar sign is one
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Labels may be in scripts that no font here has: boxes in a PNG, text in an SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        with rc_context({"svg.fonttype": "none"}):
            figure.savefig(path, dpi=110)


def _short(label: str) -> str:
    return label if len(label) <= 44 else label[:43] + "…"
