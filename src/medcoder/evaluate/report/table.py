"""A table before it is Markdown, LaTeX or HTML, and how scores become its rows.

Models that differ in their seed alone are named NAME#SEED. They make one row, with the mean over
seeds and its spread; its interval reaches from the lowest to the highest of all their intervals.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from medcoder.evaluate.results import Score

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


# Scores as rows: in what order, with how many digits, which is best and which as good

KINDS = ("lexical", "word", "concept", "contextual", "ours", "system")
_SEED = re.compile(r"(.+)#(\d+)")
_POOLINGS = {"cls": "[CLS]", "mean": "mean", "legacy": "legacy"}


@dataclass(frozen=True, kw_only=True)
class Value:
    """What a cell is made from."""

    value: float
    low: float
    high: float
    n: int
    coverage: float
    spread: float | None = None  # standard deviation over seeds


@dataclass(frozen=True, kw_only=True)
class Entry:
    """All that was measured of one embedding, seeds taken together."""

    name: str
    kind: str
    pooling: str  # "" for embeddings that are not contextual
    seeds: int  # 0 where its name has none
    values: dict[tuple[str, str, str], Value]  # by bench, split and metric


@dataclass(frozen=True)
class Wanted:
    """One column: which figure it shows, and how."""

    column: Column
    bench: str
    split: str
    metric: str
    digits: int = 2
    percent: bool = True
    least: bool = False  # the lowest is the best


def entries(scores: Iterable[Score]) -> list[Entry]:
    """Embeddings in the order of the paper: lexical, word, concept, contextual, ours, systems."""
    named: defaultdict[str, list[Score]] = defaultdict(list)
    for score in scores:
        named[seedless(score.embedding)[0]].append(score)
    made = [_entry(name, some) for name, some in named.items()]
    return sorted(made, key=lambda entry: KINDS.index(entry.kind))


def seedless(name: str) -> tuple[str, int | None]:
    """The name without its seed, and the seed.

    >>> seedless("no relation#2"), seedless("all-MiniLM-L6-v2")
    (('no relation', 2), ('all-MiniLM-L6-v2', None))
    """
    match = _SEED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def rows(some: Sequence[Entry], wanted: Sequence[Wanted], *, pooling: bool = False) -> list[Row]:
    """A row for each embedding that has any of the figures; best and close ones marked.

    pooling: say in the name how tokens are pooled, where a table has more than one way
    """
    shown = [entry for entry in some if any(_key(want) in entry.values for want in wanted)]
    columns = [_column(shown, want) for want in wanted]
    return [
        Row(
            _name(entry, pooling),
            tuple(column[position] for column in columns),
            "system" if entry.kind == "system" else "measured",
        )
        for position, entry in enumerate(shown)
    ]


def _entry(name: str, scores: Sequence[Score]) -> Entry:
    same_key: defaultdict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for score in scores:
        same_key[score.bench, score.split, score.metric].append(score)
    kind = scores[0].kind
    seeds = {seedless(score.embedding)[1] for score in scores} - {None}
    return Entry(
        name=name,
        kind=kind if kind in KINDS else "contextual",
        pooling=pooling if (pooling := scores[0].settings.get("pooling")) in _POOLINGS else "",
        seeds=len(seeds),
        values={key: _value(same) for key, same in same_key.items()},
    )


def _value(scores: Sequence[Score]) -> Value:
    return Value(
        value=fmean(score.value for score in scores),
        low=min(score.low for score in scores),
        high=max(score.high for score in scores),
        n=scores[0].n,
        coverage=fmean(score.coverage for score in scores),
        spread=stdev(score.value for score in scores) if len(scores) > 1 else None,
    )


def _key(want: Wanted) -> tuple[str, str, str]:
    return want.bench, want.split, want.metric


def _name(entry: Entry, pooling: bool) -> str:
    name = entry.name
    if pooling and entry.pooling and entry.pooling not in name.lower():
        name += f" ({_POOLINGS[entry.pooling]})"
    return f"{name} ({entry.seeds} seeds)" if entry.seeds > 1 else name


def _column(some: Sequence[Entry], want: Wanted) -> list[Cell]:
    """Cells of one column. Systems do not compete with embeddings."""
    values = [entry.values.get(_key(want)) for entry in some]
    cells = [Cell() if value is None else _cell(value, want) for value in values]
    for apart in (False, True):
        places = [n for n, entry in enumerate(some) if (entry.kind == "system") == apart]
        _mark(cells, values, places, least=want.least)
    return cells


def _mark(
    cells: list[Cell], values: Sequence[Value | None], places: Sequence[int], *, least: bool
) -> None:
    """Nothing is the best where there is nothing to compare with."""
    known = [(value, position) for position in places if (value := values[position]) is not None]
    if len(known) < 2:
        return
    top = (min if least else max)(known, key=lambda pair: pair[0].value)[0]
    # What is printed alike is the best alike.
    printed = {cells[position].text for value, position in known if value.value == top.value}
    for value, position in known:
        best = cells[position].text in printed
        overlap = value.high >= top.low and top.high >= value.low
        close = not best and overlap and _has_interval(value, top)
        cells[position] = replace(cells[position], best=best, close=close)


def _has_interval(*values: Value) -> bool:
    return any(value.low < value.high for value in values)


def _cell(value: Value, want: Wanted) -> Cell:
    text = show(value.value, want)
    if value.spread is not None:
        return Cell(text=text, interval=f"± {show(value.spread, want)}")
    if value.low == value.high:
        return Cell(text=text)
    low, high = (show(end, want, digits=max(want.digits - 1, 1)) for end in (value.low, value.high))
    return Cell(text=text, interval=f"[{low}, {high}]")


def show(value: float, want: Wanted, *, digits: int | None = None) -> str:
    """A number as its column writes it; there is no minus nought."""
    factor, places = 100 if want.percent else 1, want.digits if digits is None else digits
    text = f"{factor * value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text
