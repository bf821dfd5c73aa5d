"""Scores as rows: in what order, with how many digits, which is best and which as good.

Models that differ in their seed alone are named NAME#SEED. They make one row, with the mean over
seeds and its spread; its interval reaches from the lowest to the highest of all their intervals.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from medcoder.evaluate.report.table import Cell, Column, Row
from medcoder.evaluate.scores import Score

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
    found = [_entry(name, some) for name, some in named.items()]
    return sorted(found, key=lambda entry: KINDS.index(entry.kind))


def seedless(name: str) -> tuple[str, int | None]:
    """The name without its seed, and the seed.

    >>> seedless("no relation#2"), seedless("all-MiniLM-L6-v2")
    (('no relation', 2), ('all-MiniLM-L6-v2', None))
    """
    found = _SEED.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, None)


def rows(some: Sequence[Entry], wanted: Sequence[Wanted], *, pooling: bool = False) -> list[Row]:
    """A row for each embedding that has any of the figures; best and close ones marked.

    pooling: say in the name how tokens are pooled, where a table has more than one way
    """
    shown = [entry for entry in some if any(_key(want) in entry.values for want in wanted)]
    columns = [_column(shown, want) for want in wanted]
    return [
        Row(
            _name(entry, pooling),
            tuple(column[place] for column in columns),
            "system" if entry.kind == "system" else "measured",
        )
        for place, entry in enumerate(shown)
    ]


def _entry(name: str, scores: Sequence[Score]) -> Entry:
    found: defaultdict[tuple[str, str, str], list[Score]] = defaultdict(list)
    for score in scores:
        found[score.bench, score.split, score.metric].append(score)
    kind = scores[0].kind
    seeds = {seedless(score.embedding)[1] for score in scores} - {None}
    return Entry(
        name=name,
        kind=kind if kind in KINDS else "contextual",
        pooling=pooling if (pooling := scores[0].settings.get("pooling")) in _POOLINGS else "",
        seeds=len(seeds),
        values={key: _value(same) for key, same in found.items()},
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
    known = [(value, place) for place in places if (value := values[place]) is not None]
    if len(known) < 2:
        return
    top = (min if least else max)(known, key=lambda pair: pair[0].value)[0]
    # What is printed alike is the best alike.
    printed = {cells[place].text for value, place in known if value.value == top.value}
    for value, place in known:
        best = cells[place].text in printed
        overlap = value.high >= top.low and top.high >= value.low
        close = not best and overlap and _has_interval(value, top)
        cells[place] = replace(cells[place], best=best, close=close)


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
