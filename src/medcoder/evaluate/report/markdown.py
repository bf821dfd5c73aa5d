"""Tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from medcoder.evaluate.report.table import DAGGER, DASH, Cell, Table, legend, name_of

_SPECIAL = re.compile(r"[\\`*_<|~&]|\](?=[(\[:])")


def markdown(tables: Iterable[Table]) -> str:
    return "\n".join(_table(table) for table in tables)


def _table(table: Table) -> str:
    right = "---" if table.words else "---:"
    lines = [
        f"## {_escaped(table.title)}",
        "",
        _line([table.head, *(f"{group} {name}".strip() for group, name in table.columns)]),
        _raw(["---", *(right for _ in table.columns)]),
    ]
    for heading, rows in table.sections():
        if heading:
            lines.append(_raw([f"*{_escaped(heading)}*", *("" for _ in table.columns)]))
        lines += [
            _raw([_escaped(name_of(row)), *(_cell(cell) for cell in row.cells)]) for row in rows
        ]
    lines += ["", *(line for note in legend(table) for line in (_escaped(note), ""))]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    text = _escaped(cell.text or DASH)
    text = f"**{text}**" if cell.best else text
    mark = DAGGER if cell.close else ""
    return f"{text}{mark} {_escaped(cell.interval)}".strip()


def _line(cells: Sequence[str]) -> str:
    return _raw([_escaped(cell) for cell in cells])


def _raw(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Text that shows as it is, on one line.

    >>> print(_escaped("a|b [CLS] x_y"))
    a\\|b [CLS] x\\_y
    """
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
