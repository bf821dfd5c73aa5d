"""Exact search among the rows that a filter allows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.index.scan import ROUNDING, SPARE, Floats, Found, Mask, Rows, Sliced, scan, settle
from medcoder.index.stored import Stored

_KEPT = 1 << 28  # bytes of a part that stay in memory for the next query


class _Part(NamedTuple):
    mask: Mask
    numbers: Rows
    rows: Sliced


class Filtered:
    """The part of the last filter is kept in memory, if it is not too large."""

    def __init__(self, vectors: Stored) -> None:
        self._vectors = vectors
        self._last: _Part | None = None

    def search(self, queries: Floats, k: int, allowed: Mask) -> Found:
        return settle(
            lambda some, size: self.near(some, size, allowed),
            self._vectors,
            queries,
            k,
            first=k + SPARE,
            among=int(np.count_nonzero(allowed)),
            slack=ROUNDING,
        )

    def near(self, queries: Floats, size: int, allowed: Mask) -> Found:
        """As many candidates for each query, by scores that only rounding has touched."""
        part = self._part(allowed)
        return scan(part.rows, queries, size, part.numbers)

    def _part(self, allowed: Mask) -> _Part:
        part = self._last  # another thread may put its own there
        if part is None or part.mask is not allowed:
            numbers = np.flatnonzero(allowed)
            part = self._last = _Part(allowed, numbers, self._gathered(numbers))
        return part

    def _gathered(self, numbers: Rows) -> Sliced:
        """In float32 if they are few enough: widening them is most of the work of a query."""
        size = len(numbers) * self._vectors[:1].nbytes
        if 2 * size <= _KEPT:
            return self._vectors.take(numbers)
        return self._vectors.halves(numbers) if size <= _KEPT else _Gathered(self._vectors, numbers)


class _Gathered:
    """Rows by number, read when they are looked at."""

    def __init__(self, vectors: Stored, numbers: Rows) -> None:
        self._vectors, self._numbers = vectors, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, part: slice, /) -> npt.NDArray[np.float16]:
        return self._vectors.halves(self._numbers[part])
