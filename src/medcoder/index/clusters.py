"""Thousands of centroids by k-means in two levels, and the nearest of them for millions of rows.

A single level would compare every row with every centroid. Here the centroids are in groups,
about as many groups as a group has centroids, and a row is compared with those of the few groups
nearest to it: at 32,768 centroids a twentieth of the work, most of it in large matrix products.
"""

from __future__ import annotations

from typing import Any, Self

import faiss
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_ITERATIONS = 8
_GROUPS_FROM = 256  # fewer centroids than this are a single group
_ROWS_A_GROUP = 256  # that find the middle of a group
_LOOKED_AT = 8  # groups nearest to a row whose centroids are compared with it
_SEED = 1


class Clusters:
    """Unit centroids in groups. Cosines decide."""

    def __init__(self, middles: Floats, groups: list[Floats]) -> None:
        self._middles = faiss.IndexFlatIP(middles.shape[1])
        self._middles.add(middles)
        self._groups = groups
        self._first = np.cumsum([0] + [len(group) for group in groups])

    @property
    def centroids(self) -> Floats:
        """All of them (c, d), group by group."""
        return np.concatenate(self._groups)

    @classmethod
    def train(cls, sample: Floats, count: int) -> Self:
        """`count` centroids, or as many as the sample has rows."""
        count = min(count, len(sample))
        groups = round(count**0.5) if count >= _GROUPS_FROM else 1
        middles = _kmeans(sample[:: max(1, len(sample) // (groups * _ROWS_A_GROUP))], groups)
        near = faiss.IndexFlatIP(sample.shape[1])
        near.add(middles)
        group = near.search(sample, 1)[1][:, 0]
        sizes = np.bincount(group, minlength=groups)
        parts = [
            _kmeans(sample[group == number], part)
            for number, part in enumerate(_shared(sizes, count).tolist())
            if part
        ]
        return cls(middles[sizes > 0], parts)._moved(sample)

    def nearest(self, rows: Floats) -> Ints:
        """The number of the centroid nearest to each row."""
        looked_at = min(_LOOKED_AT, len(self._groups))
        groups = self._middles.search(rows, looked_at)[1].ravel()
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups, minlength=len(self._groups)))
        best = np.full(len(rows), -np.inf, np.float32)
        nearest = np.zeros(len(rows), np.int64)
        for number, members in enumerate(np.split(order // looked_at, ends[:-1])):
            scores = rows[members] @ self._groups[number].T
            top = scores.argmax(1)
            value = scores[np.arange(len(members)), top]
            better = value > best[members]
            best[members[better]] = value[better]
            nearest[members[better]] = top[better] + self._first[number]
        return nearest

    def _moved(self, sample: Floats) -> Self:
        """Once more each centroid to the mean of its rows, which may come from other groups."""
        nearest = self.nearest(sample)
        order = np.argsort(nearest, kind="stable")
        taken, starts = np.unique(nearest[order], return_index=True)
        moved = self.centroids
        for centroid, part in zip(taken.tolist(), np.split(order, starts[1:]), strict=True):
            moved[centroid] = sample[part].sum(0)
        moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
        self._groups = np.split(moved, self._first[1:-1])
        return self


def _shared(sizes: Ints, count: int) -> Ints:
    """`count` shared out in proportion to `sizes`: at least 1, at most the size.

    >>> _shared(np.array([0, 1, 70, 29]), 10).tolist()
    [0, 1, 7, 2]
    """
    shares = sizes * (count / sizes.sum())
    parts: Ints = np.minimum(np.maximum(shares.astype(np.int64), 1), sizes)
    while (left := count - int(parts.sum())) != 0:
        step = 1 if left > 0 else -1
        free = parts < sizes if left > 0 else parts > 1
        parts[np.argmax(np.where(free, step * (shares - parts), -np.inf))] += step
    return parts


def _kmeans(rows: Floats, count: int) -> Floats:
    clustering: Any = faiss.Clustering(rows.shape[1], count)
    clustering.niter, clustering.seed, clustering.spherical = _ITERATIONS, _SEED, True
    clustering.min_points_per_centroid, clustering.max_points_per_centroid = 1, 1 << 20
    clustering.train(np.ascontiguousarray(rows), faiss.IndexFlatIP(rows.shape[1]))
    centroids: Floats = faiss.vector_to_array(clustering.centroids)
    return centroids.reshape(count, -1)
