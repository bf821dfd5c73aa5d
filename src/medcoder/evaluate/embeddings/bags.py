"""Terms as bags of rows of a table of vectors: the words of a name, the ids of a concept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from medcoder.evaluate.base import Floats, Rows
from medcoder.evaluate.embeddings.vectorfile import VectorFile

_BLOCK = 8_192  # bags added up at a time


class Bags(NamedTuple):
    """n bags over w rows. Bag i holds `members[starts[i] : starts[i + 1]]`; some hold nothing."""

    table: Floats  # (w, d)
    members: Rows  # (m,) rows of the table
    starts: Rows  # (n + 1,)

    @property
    def sizes(self) -> Rows:
        return np.diff(self.starts)


def gather(file: VectorFile, bags: Iterable[Iterable[int]]) -> Bags:
    """Bags of entries of a file; only those that are needed are read from it."""
    numbers: dict[int, int] = {}
    members: list[int] = []
    starts = [0]
    for bag in bags:
        members.extend(numbers.setdefault(entry, len(numbers)) for entry in bag)
        starts.append(len(members))
    table = np.zeros((len(numbers), file.dimension), np.float32)
    for entry, number in numbers.items():
        table[number] = file.vector(entry)
    return Bags(table, np.array(members, np.int64), np.array(starts, np.int64))


def means(bags: Bags) -> Floats:
    """The mean of each bag (n, d); 0 for those that hold nothing."""
    sizes = bags.sizes
    found = np.zeros((len(sizes), bags.table.shape[1]), np.float32)
    filled = np.flatnonzero(sizes)
    for begin in range(0, len(filled), _BLOCK):
        some = filled[begin : begin + _BLOCK]
        first, last = bags.starts[some[0]], bags.starts[some[-1] + 1]
        rows = bags.table[bags.members[first:last]]
        found[some] = np.add.reduceat(rows, bags.starts[some] - first) / sizes[some, None]
    return found


def unit(rows: Floats) -> Floats:
    """Rows of length 1; those of 0 stay 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return found
