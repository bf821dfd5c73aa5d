"""Tables as one HTML page that needs no other file: light and dark, for screens and on paper."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from medcoder.evaluate.report.table import DASH, Cell, Row, Table, legend

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #57606a;
  --line: #d0d7de; --band: #f3f5f8; --best: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #14181d; --soft: #9da7b3; --line: #3a424c;
    --band: #1e242b; --best: #8cc2ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 75rem; padding: 1.5rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .6rem; }
a { color: var(--best); }
nav ul { columns: 22rem; padding-left: 1.2rem; }
.table { overflow-x: auto; }
.table:focus-visible { outline: 2px solid var(--best); outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; white-space: nowrap; }
.words td { white-space: normal; }
th[scope=row] { font-weight: 400; }
thead th { border-bottom: 2px solid var(--soft); }
thead th[scope=colgroup] { border-bottom: 1px solid var(--line); }
sup { line-height: 0; }
th[scope=rowgroup] { background: var(--band); color: var(--soft);
  font-weight: 600; font-size: .85rem; }
.best { color: var(--best); font-weight: 700; }
small { color: var(--soft); font-size: .8rem; }
.quoted th[scope=row], .quoted td { color: var(--soft); }
.tag { border: 1px solid var(--line); border-radius: .6rem; padding: 0 .4rem;
  font-size: .72rem; color: var(--soft); margin-left: .4rem; }
.notes { color: var(--soft); font-size: .88rem; max-width: 60rem; padding-left: 1.2rem; }
@media print { body { max-width: none; } .table { overflow: visible; } }
"""


def html(tables: Iterable[Table], *, title: str = "Figures of embeddings") -> str:
    shown = list(tables)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(title)}</h1>",
    ]
    if len(shown) > 1:
        links = (f'<li><a href="#{t.key}">{escape(t.title)}</a></li>' for t in shown)
        parts += ['<nav aria-label="Tables">', "<ul>", *links, "</ul>", "</nav>"]
    parts += [line for table in shown for line in _table(table)]
    return "\n".join([*parts, "</main>", "</body>", "</html>", ""])


def _table(table: Table) -> list[str]:
    heading = f"{table.key}-title"
    lines = [
        f'<section id="{table.key}">',
        f'<h2 id="{heading}">{escape(table.title)}</h2>',
        # A table that scrolls must be reachable by keyboard, and say what it is.
        f'<div class="table" role="region" aria-labelledby="{heading}" tabindex="0">',
        f'<table aria-labelledby="{heading}"{_class("words") if table.words else ""}>',
        *_head(table),
    ]
    for heading, rows in table.sections():
        quoted = bool(rows) and rows[0].section == "quoted"
        lines.append(f"<tbody{_class('quoted') if quoted else ''}>")
        if heading:
            span = len(table.columns) + 1
            lines.append(f'<tr><th scope="rowgroup" colspan="{span}">{escape(heading)}</th></tr>')
        lines += [_row(row) for row in rows]
        lines.append("</tbody>")
    lines += ["</table>", "</div>"]
    notes = legend(table)
    if notes:
        lines += [
            '<ul class="notes">',
            *(f"<li>{escape(note)}</li>" for note in notes),
            "</ul>",
        ]
    return [*lines, "</section>"]


def _head(table: Table) -> list[str]:
    names = [f'<th scope="col">{escape(column.name)}</th>' for column in table.columns]
    first = escape(table.head)
    if not table.grouped:
        return ["<thead>", f'<tr><th scope="col">{first}</th>', *names, "</tr>", "</thead>"]
    groups = [
        f'<th scope="colgroup" colspan="{width}">{escape(name)}</th>'
        if name
        else f'<td colspan="{width}"></td>'
        for name, width in table.groups
    ]
    return [
        "<thead>",
        f'<tr><th scope="col" rowspan="2">{first}</th>',
        *groups,
        "</tr>",
        "<tr>",
        *names,
        "</tr>",
        "</thead>",
    ]


def _row(row: Row) -> str:
    tag = '<span class="tag">quoted</span>' if row.section == "quoted" else ""
    cells = "".join(f"<td>{_cell(cell)}</td>" for cell in row.cells)
    return f'<tr><th scope="row">{escape(row.name)}{tag}</th>{cells}</tr>'


def _cell(cell: Cell) -> str:
    if not cell.text:
        return DASH
    text = escape(cell.text)
    text = f'<strong class="best">{text}</strong>' if cell.best else text
    mark = '<sup title="not separable from the best">†</sup>' if cell.close else ""
    return f"{text}{mark}" + (f" <small>{escape(cell.interval)}</small>" if cell.interval else "")


def _class(name: str) -> str:
    return f' class="{name}"'
