"""What every index shares: the contract, the search of all rows, and exact scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from medcoder.errors import ArtefactError, UsageError
from medcoder.index.stored import Stored
from medcoder.vectors import widen

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

NOTHING = -1  # row where there are fewer than asked for
ROUNDING = 1e-5  # by which the same cosine may differ, summed in another order
SPARE = 8  # rows beyond k that are scored again, where only rounding may misplace them
_BLOCK = 1024  # rows at a time: in float32 they stay in the cache
_QUERIES = 512  # queries at a time
_GROWTH = 4  # times as many candidates when those at hand do not settle it
_TIES = 1 << 14  # candidates beyond which equal ones are no longer told apart


class Found(NamedTuple):
    """Of each query the best rows, best first; equal scores by ascending row."""

    scores: Floats  # (q, k) cosines, -inf where there are no more
    rows: Rows  # (q, k), -1 where there are no more


class RowIndex(Protocol):
    """Rows by cosine."""

    def search(self, queries: Floats, k: int, *, allowed: Mask | None = None) -> Found:
        """The k best rows for each unit query; with `allowed` (u,), only among those.

        What a mask costs is paid once: pass the same array again, and do not change it.
        """
        ...


class Sliced(Protocol):
    """Rows of float16 or float32 that can be read a slice at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> npt.NDArray[Any]: ...


Fetch = Callable[[Floats, int], Found]  # candidates of queries, about best first


def checked(vectors: Stored, queries: Floats, allowed: Mask | None) -> Mask | None:
    """Refuse what cannot be searched; a mask that allows every row is none."""
    width = vectors[:0].shape[1]
    if queries.ndim != 2 or queries.shape[1] != width or not np.isfinite(queries).all():
        raise UsageError(f"queries of shape {queries.shape}: need finite rows of {width} numbers")
    if allowed is None:
        return None
    if allowed.shape != (len(vectors),) or allowed.dtype != np.bool_:
        raise UsageError(
            f"a mask of {allowed.dtype} {allowed.shape}: need one bool for each of the "
            f"{len(vectors):,} rows"
        )
    return None if allowed.all() else allowed


def scan(vectors: Sliced, queries: Floats, k: int, numbers: Rows | None = None) -> Found:
    """Search all of `vectors` by blocks; `numbers` are the rows' own, if not 0, 1, 2...

    There are as many columns as rows if those are fewer than k.
    """
    found = _nothing(len(queries), min(k, len(vectors)))
    if found.rows.size:
        for first in range(0, len(queries), _QUERIES):
            some = slice(first, first + _QUERIES)
            _scan(vectors, queries[some], found.scores[some], found.rows[some])
    return found if numbers is None else Found(found.scores, numbers[found.rows])


def _scan(vectors: Sliced, queries: Floats, best: Floats, rows: Rows) -> None:
    """Scores block by block; only what beats the worst kept so far is looked at."""
    k = best.shape[1]
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        block = widen(block) if block.dtype == np.float16 else block
        scores = block @ queries.T  # (b, q): with few queries twice as fast as its transpose
        for query in np.flatnonzero(scores.max(0) > best[:, -1]):
            places = np.flatnonzero(scores[:, query] > best[query, -1])
            merged = np.concatenate([best[query], scores[places, query]])
            numbers = np.concatenate([rows[query], places + start])
            order = np.lexsort((numbers, -merged))[:k]
            best[query], rows[query] = merged[order], numbers[order]


def settle(
    fetch: Fetch, vectors: Stored, queries: Floats, k: int, *, first: int, among: int, slack: float
) -> Found:
    """The k best of `among` rows: candidates by scores off by up to `slack`, then exact cosines.

    It begins with `first` candidates. More are fetched where the last of them might still belong
    to the k best: of hundreds of equal rows, those with the lowest numbers are the answer.
    """
    found = _nothing(len(queries), k)
    wanted, size = min(k, among), min(first, among)
    left = np.arange(len(queries) if wanted else 0)
    while len(left):
        near = fetch(queries[left], size)
        best = _rescored(vectors, queries[left], near.rows, wanted)
        found.scores[left, :wanted], found.rows[left, :wanted] = best
        if size == among:
            break
        more = best.rows[:, -1] == NOTHING
        if size < _TIES:
            more |= near.scores[:, -1] + slack >= best.scores[:, -1]
        left, size = left[more], min(size * _GROWTH, among)
    return found


def _rescored(vectors: Stored, queries: Floats, rows: Rows, k: int) -> Found:
    """Exact cosines of candidate rows (q, c), and the best k of them.

    Each cosine is summed by itself: a matrix product gives equal rows scores that differ in the
    last bit, by their place in it, and ties would fall one way today and another tomorrow.
    """
    if np.any((rows < NOTHING) | (rows >= len(vectors))):
        raise ArtefactError(
            f"the index names rows that are not among the {len(vectors):,} there are: it is "
            "damaged. Copy or build it again"
        )
    scores = np.full(rows.shape, -np.inf, np.float32)
    for place, query in enumerate(queries):
        real = np.flatnonzero(rows[place] != NOTHING)
        scores[place, real] = np.einsum("rd,d->r", vectors.take(rows[place, real]), query)
    order = np.lexsort((rows, -scores))[:, :k]
    return Found(np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1))


def _nothing(queries: int, k: int) -> Found:
    return Found(
        np.full((queries, k), -np.inf, np.float32), np.full((queries, k), NOTHING, np.int64)
    )
