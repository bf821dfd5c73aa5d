"""Pairs of a query and a row, of a whole batch: what the stages find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from medcoder.normalize.owners import Owners

_MORE = 4  # times as many rows when they are of too few concepts

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Pairs(NamedTuple):
    """By query, of each the best first."""

    query: Ints
    row: Ints
    value: npt.NDArray[np.float64]  # how near, or how similar

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def joined(cls, queries: Ints, found: Sequence[tuple[Any, Any]]) -> Self:
        """Of rows and values for each of some queries."""
        if not len(queries):
            return cls.none()
        counts = [len(rows) for rows, _ in found]
        rows, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return cls(np.repeat(queries, counts), rows, values.astype(np.float64))

    def of(self, chosen: Flags) -> Pairs:
        return Pairs(self.query[chosen], self.row[chosen], self.value[chosen])

    def keys(self, rows: int) -> Ints:
        """A number for each pair."""
        keys: Ints = self.query * rows + self.row
        return keys


def enough(
    look: Callable[[Ints, int], Pairs], queries: Ints, owners: Owners, size: int, wanted: int
) -> Pairs:
    """`size` rows of each query, more until they are of `wanted` concepts: one may have hundreds.

    look: finds as many rows for some queries
    """
    parts = [Pairs.none()]
    while len(queries):
        found = look(queries, size)
        count = int(queries[-1]) + 1
        few = owners.concepts(found.query, found.row, count) < wanted
        again = few & (np.bincount(found.query, minlength=count) >= size)
        parts.append(found.of(~again[found.query]))
        queries, size = np.flatnonzero(again), size * _MORE
    query = np.concatenate([part.query for part in parts])
    order = np.argsort(query, kind="stable")
    row = np.concatenate([part.row for part in parts])
    value = np.concatenate([part.value for part in parts])
    return Pairs(query[order], row[order], value[order])
