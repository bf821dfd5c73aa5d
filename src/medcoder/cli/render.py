"""Graphs and concepts for people: tables, and a picture of the counts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from medcoder.cli.console import add_row, line, new_table, out
from medcoder.errors import MissingExtra, UsageError
from medcoder.kg import KG

COUNTED = ("languages", "vocabularies", "kinds", "types", "relations", "flags")
_PANELS = ("languages", "vocabularies", "types", "relations")
_BARS = 14


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
        "terms": [term._asdict() for term in graph.terms_of(concept)],
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
