"""For the lowest latency, where memory is plenty: a graph of near neighbours over bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from medcoder.index.checksummed import (
    check_bytes,
    check_fits,
    check_walk,
    read_checksummed,
    slack_of,
    write_checksummed,
)
from medcoder.index.exact import NOTHING, Filtered, Floats, Mask, Neighbours, checked, scan, settle
from medcoder.index.stored import Stored
from medcoder.vectors import Vectors, widen

_FILE, _FAISS = "hnsw.faiss", b"IHNs"
_LINKS = 32  # of each row
_BREADTH = 200  # of the search while building
_OVER = 4  # candidates rescored for each row asked for
_AT_LEAST = 128  # candidates rescored
_EXACT_SHARE = 0.3  # filters that keep less are searched row by row
_PART = 8  # with more than this part of the rows as candidates, comparing all is no slower
_ADDED = 1 << 16  # rows added at a time
_TRAINED_ON = 100_000
_SEED = 1


class HnswIndex:
    """HNSW with 8-bit scalar quantisation.

    Walking the graph around rows that are not allowed loses a fifth of the answers when a
    hundredth of them is. So a filter that keeps few rows is searched exactly; for a filter that
    keeps many, the rows it does not allow are left out of more candidates.
    """

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        self._vectors = Stored(vectors)
        self._filtered = Filtered(self._vectors)
        file, rows, width = folder / _FILE, len(vectors), vectors.width
        self._index: Any = read_checksummed(file, _FAISS)
        check_fits(file, self._index, rows=rows, width=width)
        quantizer = faiss.downcast_index(self._index.storage).sq
        check_bytes(file, quantizer, width=width)
        check_walk(file, self._index, rows=rows, width=width)
        self._slack = slack_of(quantizer)

    @staticmethod
    def build(vectors: Vectors, folder: Path) -> None:
        stored = Stored(vectors)
        index = faiss.IndexHNSWSQ(
            vectors.width, faiss.ScalarQuantizer.QT_8bit_uniform, _LINKS, faiss.METRIC_INNER_PRODUCT
        )
        index.hnsw.efConstruction = _BREADTH
        sample = min(_TRAINED_ON, len(vectors))
        chosen = np.random.default_rng(_SEED).choice(len(vectors), sample, replace=False)
        index.train(stored.take(np.sort(chosen)))
        for start in range(0, len(vectors), _ADDED):
            index.add(widen(stored[start : start + _ADDED]))
        write_checksummed(index, folder / _FILE)

    def search(self, queries: Floats, k: int, *, allowed: Mask | None = None) -> Neighbours:
        allowed = checked(self._vectors, queries, allowed)
        among = len(self._vectors)
        if allowed is not None:
            among = int(np.count_nonzero(allowed))
            if among < _EXACT_SHARE * len(self._vectors):
                return self._filtered.search(queries, k, allowed)
        first = max(k * _OVER, _AT_LEAST)

        def fetch(some: Floats, size: int) -> Neighbours:
            wide = math.ceil(size * len(self._vectors) / among)
            if size <= first and wide * _PART <= len(self._vectors):
                return self._walked(some, size, wide, allowed)
            # The graph does not lead to all of many equal rows: what it did not settle is scanned.
            if allowed is None:
                return scan(self._vectors, some, size)
            return self._filtered.near(some, size, allowed)

        return settle(fetch, self._vectors, queries, k, first=first, among=among, slack=self._slack)

    def _walked(self, queries: Floats, size: int, wide: int, allowed: Mask | None) -> Neighbours:
        """The allowed ones among `wide` candidates, at most `size`."""
        parameters = faiss.SearchParametersHNSW(efSearch=wide)
        scores, rows = self._index.search(queries, wide, params=parameters)
        scores[rows[:, -1] == NOTHING] = np.inf  # it led nowhere: nothing is settled
        if allowed is not None:
            out = ~allowed[rows]
            # What comes after the last of them is no better than it.
            rows[out], scores[out] = NOTHING, np.broadcast_to(scores[:, -1:], out.shape)[out]
            order = np.argsort(out, axis=1, kind="stable")[:, :size]
            rows, scores = (np.take_along_axis(array, order, 1) for array in (rows, scores))
        return Neighbours(scores, rows)
