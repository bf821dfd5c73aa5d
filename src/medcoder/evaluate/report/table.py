"""A table before it is Markdown, LaTeX or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, NamedTuple

DASH = "–"
DAGGER = "†"
MANY = 8  # columns beyond which a table had better lie on its side
Section = Literal["measured", "system", "quoted"]
SECTIONS: dict[Section, str] = {
    "measured": "Measured",
    "system": "Whole systems, measured",
    "quoted": "Quoted from the paper",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number with its interval as it is to be shown, or words."""

    text: str = ""  # "" is a missing value
    interval: str = ""
    best: bool = False  # of the measured rows of its section
    close: bool = False  # not the best, but the intervals overlap

    @property
    def shown(self) -> str:
        """Without any mark-up."""
        mark = DAGGER if self.close else ""
        return f"{self.text or DASH}{mark}{' ' if self.interval else ''}{self.interval}"


class Column(NamedTuple):
    group: str  # "" for none: Cadec above acc@1 and acc@3
    name: str


class Row(NamedTuple):
    name: str
    cells: tuple[Cell, ...]
    section: Section = "measured"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one section lie together."""

    key: str  # for links and labels: letters, digits and dashes
    title: str
    head: str = "Embedding"  # of the column of names
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    words: bool = False  # the cells are words, not numbers; bold ones are right

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{self.key}: {row.name} has {len(row.cells)} cells")

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Names of the groups of columns, with how many columns each spans."""
        return [(name, len(list(some))) for name, some in groupby(c.group for c in self.columns)]

    @property
    def grouped(self) -> bool:
        return any(column.group for column in self.columns)

    def sections(self) -> Iterator[tuple[str, list[Row]]]:
        """Rows under their heading, which is "" if all are measured."""
        alone = all(row.section == "measured" for row in self.rows)
        for section, rows in groupby(self.rows, key=lambda row: row.section):
            yield "" if alone else SECTIONS[section], list(rows)

    @property
    def measured(self) -> bool:
        return any(row.section != "quoted" for row in self.rows)


def transposed(table: Table, *, head: str) -> Table:
    """Columns as rows: for many columns and few rows, none of them quoted."""
    names = [f"{group}: {name}" if group else name for group, name in table.columns]
    cells = zip(*(row.cells for row in table.rows), strict=True)
    return replace(
        table,
        head=head,
        columns=tuple(
            Column("system" if row.section == "system" else "", row.name) for row in table.rows
        ),
        rows=tuple(Row(name, column) for name, column in zip(names, cells, strict=True)),
    )


def slug(text: str) -> str:
    """What may be part of a key.

    >>> slug("mcsm_mesh: Pijn, rug-")
    'mcsm-mesh-pijn-rug'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def words(*texts: str) -> tuple[Cell, ...]:
    """Cells with nothing but these words."""
    return tuple(Cell(text=text) for text in texts)


def name_of(row: Row) -> str:
    """The name of a row, which says so where the row is quoted."""
    return f"{row.name} (quoted)" if row.section == "quoted" else row.name


def legend(table: Table) -> list[str]:
    """The notes of a table, and what its marks mean, for those that it has."""
    cells = [cell for row in table.rows for cell in row.cells]
    said = list(table.notes)
    if any(cell.best for cell in cells):
        said.append("Bold: right." if table.words else "Bold: the best of the measured rows.")
    if any(cell.close for cell in cells):
        said.append(
            f"{DAGGER}: the 95% interval overlaps that of the best: the two cannot be told apart."
        )
    return said


def indexed(tables: Sequence[Table]) -> list[Table]:
    """All tables, no two of one key."""
    seen: dict[str, int] = {}
    made = []
    for table in tables:
        seen[table.key] = seen.get(table.key, 0) + 1
        again = seen[table.key]
        made.append(table if again == 1 else replace(table, key=f"{table.key}-{again}"))
    return made
