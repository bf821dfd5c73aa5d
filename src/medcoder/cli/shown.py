"""How commands show things to people."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from medcoder.cli.lines import line, out, text
from medcoder.kg import KG

COUNTED = ("languages", "vocabularies", "kinds", "types", "relations", "flags")


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


def new_table(*headers: str, style: str = "dim") -> Table:
    """An empty table in which a long word goes on in the next line, and none is cut off."""
    table = Table(box=None, header_style=style)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    table.add_row(*map(text, cells))


def _label(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    if "vocabulary" not in entry:
        return str(entry["name"] or entry["id"])
    prefix, code = f"{entry['vocabulary']}:", str(entry["code"])
    return code if code.startswith(prefix) else prefix + code


def _end(edge: dict[str, str], end: str) -> str:
    return f"{edge[f'{end}_name']} ({edge[end]})"
