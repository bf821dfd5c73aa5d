"""What belongs together: pairs of related terms, and edges with their labels.

Pairs come out of the tables of data/train/related. Edges come out of them too, where the name of a
column is the label, and out of the relations of the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.text import fold
from tables import read

Array = npt.NDArray[Any]
BETWEEN = " | "  # the items of a field
# How much a column with one item weighs, by its name; n items have this times n to the power of
# one half together. Each column after the first is there.
WEIGHTS = {
    "names": 3.0, "kinds": 2.0, "closest": 1.5, "treats": 2.0, "action": 0.7, "effects": 0.4,
    "other": 0.6, "signs": 1.5, "causes": 0.8, "complications": 0.8, "treatments": 0.8,
    "tests": 0.5, "conditions": 1.5, "parts": 0.7, "measures": 0.5,
}  # fmt: skip
# A brand has, with this weight, what its drug has.
OF_BRANDS = {"kinds": 1.0, "closest": 1.0, "treats": 0.8}
BRANDS = "drugs"  # tables whose names are brands
PAIRS = (("term1", "term2"), ("head", "tail"))  # columns of a table of pairs
POWER = 0.5  # a label with n edges is drawn as n to this power
FEWEST = 30  # edges of a label that is worth telling from others


class Item(NamedTuple):
    """A term, what it is related to, and how."""

    term: str
    item: str
    label: str
    weight: float


def read_related(folder: Path, *, without: Collection[frozenset[str]]) -> list[Item]:
    """All items of the tables but those that are, with their term, a pair of `without`."""
    return [
        one
        for file in sorted(folder.glob("*.tsv"))
        for one in of_table(file)
        if fold(one.term) != fold(one.item)
        and frozenset((fold(one.term), fold(one.item))) not in without
    ]


def of_table(file: Path) -> Iterable[Item]:
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
                yield Item(term, item, f"{file.stem}.{column}", WEIGHTS[column] / len(some) ** 0.5)
        if not file.stem.startswith(BRANDS):
            continue
        brands = items.get("names", [])
        for column, weight in OF_BRANDS.items():
            some = items.get(column, [])
            for brand in brands:
                for item in some:
                    share = weight / (len(some) * len(brands)) ** 0.5
                    yield Item(brand, item, f"{file.stem}.{column}", share)


def asked_for(tables: Iterable[Path]) -> set[frozenset[str]]:
    """Pairs of folded terms that tables ask for."""
    found = set()
    for table in tables:
        header, rows = read(table)
        columns = [pair for pair in PAIRS if set(pair) <= set(header)]
        if not columns:
            raise SystemExit(f"{table}: no columns of pairs; there are: {', '.join(header)}")
        first, second = map(header.index, columns[0])
        found |= {frozenset((fold(row[first]), fold(row[second]))) for row in rows}
    return found


class Pairs:
    """Pairs of related terms, by numbers that the terms have elsewhere."""

    def __init__(self, items: Sequence[Item], number: dict[str, int]) -> None:
        folded: dict[str, int] = {}
        ends = [(one.term, one.item) for one in items]
        self.terms = np.array([[number[text] for text in pair] for pair in ends], np.int64)
        self._keys = np.array(
            [[folded.setdefault(fold(text), len(folded)) for text in pair] for pair in ends],
            np.int64,
        )
        self._weights = np.cumsum([one.weight for one in items])
        self._many = len(folded)
        both = np.concatenate([self._keys, self._keys[:, ::-1]])
        self._near = np.unique(both[:, 0] * self._many + both[:, 1])

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Numbers of terms (2n,), firsts and then seconds; and (2n, 2n) which may be negatives.

        Two that are equal or a pair anywhere are not.
        """
        place = np.searchsorted(self._weights, rng.random(count) * self._weights[-1], "right")
        keys = self._keys[place].T.ravel()
        both = keys[:, None] * self._many + keys
        at = np.searchsorted(self._near, both.ravel()).clip(max=len(self._near) - 1)
        known = (self._near[at] == both.ravel()).reshape(both.shape)
        return self.terms[place].T.ravel(), ~known & (keys[:, None] != keys)


class Edges:
    """Edges with labels. An end is a number of a term, or of several of which one is drawn."""

    def __init__(self, edges: Sequence[tuple[int, str, int]], first: Array, count: Array) -> None:
        """Ends are numbers of choices; choice c is of the terms from first[c] on, count[c]."""
        labels, of, counts = np.unique(
            [label for _, label, _ in edges], return_inverse=True, return_counts=True
        )
        kept = np.flatnonzero(counts >= FEWEST)
        self.labels = labels[kept].tolist()
        new = np.full(len(labels), -1)
        new[kept] = np.arange(len(kept))
        good = new[of] >= 0
        ends = np.array([(head, tail) for head, _, tail in edges], np.int64)[good]
        order = np.argsort(new[of][good], kind="stable")
        self._ends = ends[order]
        self._starts = np.concatenate([[0], np.cumsum(counts[kept])])
        self._weights = np.cumsum(counts[kept].astype(float) ** POWER)
        self._first, self._count = first, count

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Numbers of terms (2n,), heads and then tails, and labels (n,)."""
        label = np.searchsorted(self._weights, rng.random(count) * self._weights[-1], "right")
        size = np.diff(self._starts)[label]
        place = self._starts[label] + (rng.random(count) * size).astype(np.int64)
        chosen = self._ends[place].T.ravel()
        within = (rng.random(len(chosen)) * self._count[chosen]).astype(np.int64)
        return self._first[chosen] + within, label
