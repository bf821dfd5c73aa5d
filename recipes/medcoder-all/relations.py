"""Pairs of related terms out of the tables of data/related."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tables import read

from medcoder.text import fold

BETWEEN = " | "  # the items of a field
# How much the items of a column weigh together, by its name; each column after the first is there.
WEIGHTS = {
    "names": 3.0, "kinds": 2.0, "closest": 1.5, "treats": 2.0, "action": 0.7, "effects": 0.4,
    "other": 0.6, "signs": 1.5, "causes": 0.8, "complications": 0.8, "treatments": 0.8,
    "tests": 0.5, "conditions": 1.5, "parts": 0.7, "measures": 0.5,
}  # fmt: skip
# A brand has, with this weight, what its drug has.
OF_BRANDS = {"kinds": 1.0, "closest": 1.0, "treats": 0.8}
BRANDS = "drugs"  # tables whose names are brands
PAIRS = (("term1", "term2"), ("head", "tail"))  # columns of a table of pairs


class Related:
    """Pairs with their weights."""

    def __init__(self, pairs: Sequence[tuple[str, str, float]]) -> None:
        self.pairs = [(one, other) for one, other, _ in pairs]
        self._weights = list(accumulate(weight for *_, weight in pairs))
        self._near: dict[str, set[str]] = defaultdict(set)
        for one, other, _ in pairs:
            self._near[fold(one)].add(fold(other))
            self._near[fold(other)].add(fold(one))

    def __len__(self) -> int:
        return len(self.pairs)

    def draw(self, random: random.Random, count: int) -> list[tuple[str, str]]:
        return random.choices(self.pairs, cum_weights=self._weights, k=count)

    def known(self, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
        """(n, n): whether two folded terms are equal or are a pair."""
        found = np.zeros((len(keys), len(keys)), np.bool_)
        for row, key in enumerate(keys):
            near = self._near.get(key, set())
            found[row] = [other == key or other in near for other in keys]
        return found


def read_related(folder: Path, *, without: Collection[frozenset[str]]) -> Related:
    """All pairs of the tables but those of which both terms are a pair of `without`."""
    pairs = [
        (one, other, weight)
        for file in sorted(folder.glob("*.tsv"))
        for one, other, weight in of_table(file)
        if fold(one) != fold(other) and frozenset((fold(one), fold(other))) not in without
    ]
    return Related(pairs)


def of_table(file: Path) -> Iterable[tuple[str, str, float]]:
    """An item with the term of its row; a brand also with kinds, kin and uses of its drug."""
    (_, *columns), rows = read(file)
    for term, *fields in rows:
        items = {
            column: field.split(BETWEEN)
            for column, field in zip(columns, fields, strict=True)
            if field
        }
        for column, some in items.items():
            for item in some:
                yield term, item, WEIGHTS[column] / len(some) ** 0.5
        if not file.stem.startswith(BRANDS):
            continue
        brands = items.get("names", [])
        for column, weight in OF_BRANDS.items():
            some = items.get(column, [])
            for brand in brands:
                for item in some:
                    yield brand, item, weight / (len(some) * len(brands)) ** 0.5


def asked_for(tables: Iterable[Path]) -> set[frozenset[str]]:
    """Pairs of folded terms that tables ask for."""
    found = set()
    for table in tables:
        header, rows = read(table)
        for one, other in PAIRS:
            if one in header:
                first, second = header.index(one), header.index(other)
                found |= {frozenset((fold(row[first]), fold(row[second]))) for row in rows}
    return found
