"""Exact search: every row compared, or those that a filter allows, and exact scores for all kinds.

This is the truth, and fast enough for some hundred thousand rows. The other kinds of index find
candidates faster, and let `settle` score them again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from medcoder.errors import ArtefactError, UsageError
from medcoder.index.stored import Stored
from medcoder.vectors import Vectors, widen

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

NOTHING = -1  # row where there are fewer than asked for
ROUNDING = 1e-5  # by which the same cosine may differ, summed in another order
SPARE = 8  # rows beyond k that are scored again, where only rounding may misplace them
_BLOCK = 1024  # rows at a time: in float32 they stay in the cache
_QUERIES = 512  # queries at a time
_GROWTH = 4  # times as many candidates when those at hand do not settle it
_KEPT = 1 << 28  # bytes of a part that stay in memory for the next query
_TIES = 1 << 14  # candidates beyond which equal ones are no longer told apart


class Neighbours(NamedTuple):
    """Of each query the best rows, best first; equal scores by ascending row."""

    scores: Floats  # (q, k) cosines, -inf where there are no more
    rows: Rows  # (q, k), -1 where there are no more


class RowIndex(Protocol):
    """Rows by cosine."""

    def search(self, queries: Floats, k: int, *, allowed: Mask | None = None) -> Neighbours:
        """The k best rows for each unit query; with `allowed` (u,), only among those.

        What a mask costs is paid once: pass the same array again, and do not change it.
        """
        ...


class Sliced(Protocol):
    """Rows of float16 or float32 that can be read a slice at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> npt.NDArray[Any]: ...


Fetch = Callable[[Floats, int], Neighbours]  # candidates of queries, about best first


def checked(vectors: Stored, queries: Floats, allowed: Mask | None) -> Mask | None:
    """Refuse what cannot be searched; a mask that allows every row is none."""
    width = vectors[:0].shape[1]
    if queries.ndim != 2 or queries.shape[1] != width or not np.isfinite(queries).all():
        raise UsageError(
            f"queries must be finite rows of {width} numbers", values=f"shape {queries.shape}"
        )
    if allowed is None:
        return None
    if allowed.shape != (len(vectors),) or allowed.dtype != np.bool_:
        raise UsageError(
            f"a mask must have a bool for each of the {len(vectors):,} rows",
            values=f"{allowed.dtype} {allowed.shape}",
        )
    return None if allowed.all() else allowed


def scan(vectors: Sliced, queries: Floats, k: int, numbers: Rows | None = None) -> Neighbours:
    """Search all of `vectors` by blocks; `numbers` are the rows' own, if not 0, 1, 2...

    There are as many columns as rows if those are fewer than k.
    """
    best = _nothing(len(queries), min(k, len(vectors)))
    if best.rows.size:
        for first in range(0, len(queries), _QUERIES):
            some = slice(first, first + _QUERIES)
            _scan(vectors, queries[some], best.scores[some], best.rows[some])
    return best if numbers is None else Neighbours(best.scores, numbers[best.rows])


def _scan(vectors: Sliced, queries: Floats, best: Floats, rows: Rows) -> None:
    """Scores block by block; only what beats the worst kept so far is looked at."""
    k = best.shape[1]
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        block = widen(block) if block.dtype == np.float16 else block
        scores = block @ queries.T  # (b, q): with few queries twice as fast as its transpose
        for query in np.flatnonzero(scores.max(0) > best[:, -1]):
            better = np.flatnonzero(scores[:, query] > best[query, -1])
            merged = np.concatenate([best[query], scores[better, query]])
            numbers = np.concatenate([rows[query], better + start])
            order = np.lexsort((numbers, -merged))[:k]
            best[query], rows[query] = merged[order], numbers[order]


def settle(
    fetch: Fetch, vectors: Stored, queries: Floats, k: int, *, first: int, among: int, slack: float
) -> Neighbours:
    """The k best of `among` rows: candidates by scores off by up to `slack`, then exact cosines.

    It begins with `first` candidates. More are fetched where the last of them might still belong
    to the k best: of hundreds of equal rows, those with the lowest numbers are the answer.
    """
    answer = _nothing(len(queries), k)
    wanted, size = min(k, among), min(first, among)
    left = np.arange(len(queries) if wanted else 0)
    while len(left):
        near = fetch(queries[left], size)
        best = _rescored(vectors, queries[left], near.rows, wanted)
        answer.scores[left, :wanted], answer.rows[left, :wanted] = best
        if size == among:
            break
        more = best.rows[:, -1] == NOTHING
        if size < _TIES:
            more |= near.scores[:, -1] + slack >= best.scores[:, -1]
        left, size = left[more], min(size * _GROWTH, among)
    return answer


def _rescored(vectors: Stored, queries: Floats, rows: Rows, k: int) -> Neighbours:
    """Exact cosines of candidate rows (q, c), and the best k of them.

    Each cosine is summed by itself: a matrix product gives equal rows scores that differ in the
    last bit, by their position in it, and ties would fall differently from day to day.
    """
    if np.any((rows < NOTHING) | (rows >= len(vectors))):
        raise ArtefactError(
            f"the index is damaged: it names rows beyond the {len(vectors):,} there are",
            remedy="Copy or build it again",
        )
    scores = np.full(rows.shape, -np.inf, np.float32)
    for position, query in enumerate(queries):
        real = np.flatnonzero(rows[position] != NOTHING)
        candidates = vectors.take(rows[position, real])
        scores[position, real] = np.einsum("rd,d->r", candidates, query)
    order = np.lexsort((rows, -scores))[:, :k]
    return Neighbours(np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1))


def _nothing(queries: int, k: int) -> Neighbours:
    return Neighbours(
        np.full((queries, k), -np.inf, np.float32), np.full((queries, k), NOTHING, np.int64)
    )


class _Part(NamedTuple):
    mask: Mask
    numbers: Rows
    rows: Sliced


class Filtered:
    """The part of the last filter is kept in memory, if it is not too large."""

    def __init__(self, vectors: Stored) -> None:
        self._vectors = vectors
        self._last: _Part | None = None

    def search(self, queries: Floats, k: int, allowed: Mask) -> Neighbours:
        return settle(
            lambda some, size: self.near(some, size, allowed),
            self._vectors,
            queries,
            k,
            first=k + SPARE,
            among=int(np.count_nonzero(allowed)),
            slack=ROUNDING,
        )

    def near(self, queries: Floats, size: int, allowed: Mask) -> Neighbours:
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


class ExactIndex:
    """Needs nothing on disk but the vectors."""

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        self._vectors = Stored(vectors)
        self._filtered = Filtered(self._vectors)

    @staticmethod
    def build(vectors: Vectors, folder: Path) -> None:
        """Nothing to do."""

    def search(self, queries: Floats, k: int, *, allowed: Mask | None = None) -> Neighbours:
        allowed = checked(self._vectors, queries, allowed)
        if allowed is not None:
            return self._filtered.search(queries, k, allowed)
        return settle(
            lambda some, size: scan(self._vectors, some, size),
            self._vectors,
            queries,
            k,
            first=k + SPARE,
            among=len(self._vectors),
            slack=ROUNDING,
        )
