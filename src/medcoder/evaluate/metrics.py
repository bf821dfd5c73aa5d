"""Measures of the paper, and how sure they are: bootstrap intervals over the items.

Everything takes arrays with an entry for each item and gives numbers; nothing here knows what an
item is. Intervals are percentiles of resamples with replacement, drawn within each group where
there are groups (folds), so that a mean of groups is resampled as it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.errors import MissingExtra

Reals = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]

LEVEL = 0.95
_CELLS = 1 << 22  # entries that are drawn at a time, which bounds the memory


class Estimate(NamedTuple):
    """A value and its interval."""

    value: float
    low: float
    high: float


# Linking


def hits_at(ranks: Numbers, k: int) -> Reals:
    """1 where the first right concept is among the first k. `ranks` count from 0; -1: nowhere."""
    return ((ranks >= 0) & (ranks < k)).astype(np.float64)


def mean(
    values: Numbers, *, groups: Numbers | None = None, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """The mean; with `groups`, the unweighted mean of the means of the groups, as of folds."""
    items = np.asarray(values, dtype=np.float64)
    if not len(items):
        return Estimate(float("nan"), float("nan"), float("nan"))
    parts = [items] if groups is None else [items[groups == group] for group in np.unique(groups)]
    value = float(np.mean([part.mean() for part in parts]))
    drawn = np.zeros(resamples)
    for number, part in enumerate(parts):
        drawn += _sums(part[:, None], resamples, (seed, number))[:, 0] / len(part)
    return _estimate(value, drawn / len(parts))


def precision_recall_f1(
    hits: Numbers, predicted: Numbers, gold: Numbers, *, resamples: int = 1000, seed: int = 0
) -> tuple[Estimate, Estimate, Estimate]:
    """Micro precision = hits / predictions, recall = hits / gold ids, and their harmonic mean.

    Each array counts for one query: ids that are right, ids that are predicted, ids of the gold.
    """
    counts = np.stack([hits, predicted, gold], axis=1).astype(np.float64)
    total = counts.sum(axis=0, keepdims=True)  # (1, 3)
    drawn = _sums(counts, resamples, (seed,))  # (resamples, 3)
    precision, recall, f1 = (
        _estimate(float(of(total)[0]), of(drawn)) for of in (_precision, _recall, _f1)
    )
    return precision, recall, f1


def _precision(sums: Reals) -> Reals:
    return _share(sums[:, 0], sums[:, 1])


def _recall(sums: Reals) -> Reals:
    return _share(sums[:, 0], sums[:, 2])


def _f1(sums: Reals) -> Reals:
    return _share(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


def _share(part: Reals, whole: Reals) -> Reals:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


# MCSM


def discounts(k: int) -> Reals:
    """1 / log2(i + 1) for the neighbours i = 1..k; their sum is the most that MCSM can be.

    >>> round(float(discounts(40).sum()), 2)
    11.09
    """
    return 1 / np.log2(np.arange(2, k + 2, dtype=np.float64))


def mcsm_gains(same: npt.NDArray[np.bool_]) -> Reals:
    """Of each concept: sum over its neighbours that have the type of 1 / log2(i + 1).

    `same` (n, k) says whether the i-th neighbour has the type. MCSM is the mean over the concepts
    of the type.
    """
    gains: Reals = same.astype(np.float64) @ discounts(same.shape[1])
    return gains


# Similarity


def spearman(left: Numbers, right: Numbers, *, resamples: int = 1000, seed: int = 0) -> Estimate:
    """Correlation of ranks, ties sharing theirs; the interval is over the pairs."""
    left, right = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    value = float(_correlation(left[None], right[None])[0])
    drawn = [_correlation(left[rows], right[rows]) for rows in _rows(len(left), resamples, (seed,))]
    return _estimate(value, np.concatenate(drawn) if drawn else np.empty(0))


def _correlation(left: Reals, right: Reals) -> Reals:
    """Of each row; where one side has a single value, there is nothing to correlate with: 0."""
    x, y = (_rankdata(side) for side in (left, right))
    x -= x.mean(axis=1, keepdims=True)
    y -= y.mean(axis=1, keepdims=True)
    spread = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    return _share((x * y).sum(axis=1), spread)


def _rankdata(values: Reals) -> Reals:
    """Ranks 1..n of each row; equal values share the mean of theirs."""
    try:
        from scipy.stats import rankdata
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "correlations need scipy", remedy="Install it with: pip install 'medcoder[eval]'"
        ) from error
    ranks: Reals = rankdata(values, axis=1)
    return ranks


# Neighbourhoods


def neighbourhood_purity(points: Numbers, labels: Numbers, *, k: int = 10) -> float:
    """Mean share of a point's nearest others that have its label; 1 is perfect.

    A label with fewer than k + 1 points is asked for as many neighbours as it can have, so that
    small ones can be pure too; points that are alone in theirs are left out.
    """
    names, numbers = np.unique(labels, return_inverse=True)
    wanted = np.minimum(np.bincount(numbers, minlength=len(names)) - 1, k)[numbers]  # (n,)
    asked = np.flatnonzero(wanted > 0)
    if not len(asked):
        return float("nan")
    most = int(wanted.max())
    squares = (np.asarray(points, dtype=np.float64) ** 2).sum(axis=1)
    block, shares = max(1, _CELLS // len(points)), []
    for start in range(0, len(asked), block):
        rows = asked[start : start + block]
        near = squares[None] - 2 * np.asarray(points[rows], dtype=np.float64) @ points.T  # (b, n)
        near[np.arange(len(rows)), rows] = np.inf  # none is its own neighbour
        nearest = np.argsort(near, axis=1, kind="stable")[:, :most]
        right = numbers[nearest] == numbers[rows][:, None]
        right &= np.arange(most)[None] < wanted[rows][:, None]
        shares.append(right.sum(axis=1) / wanted[rows])
    return float(np.concatenate(shares).mean())


# Resampling


def _estimate(value: float, drawn: Reals) -> Estimate:
    if not len(drawn):
        return Estimate(value, value, value)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    # Percentiles of a skewed statistic may miss the value itself.
    return Estimate(value, min(float(low), value), max(float(high), value))


def _sums(columns: Reals, resamples: int, seed: tuple[int, ...]) -> Reals:
    """Sums of the columns over each resample of the rows: (resamples, columns)."""
    drawn = [columns[rows].sum(axis=1) for rows in _rows(len(columns), resamples, seed)]
    return np.concatenate(drawn) if drawn else np.empty((0, columns.shape[1]))


def _rows(n: int, resamples: int, seed: tuple[int, ...]) -> Iterator[npt.NDArray[np.int64]]:
    """Blocks (b, n) of rows drawn with replacement."""
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // max(n, 1))
    for start in range(0, resamples, block):
        yield rng.integers(0, n, size=(min(block, resamples - start), n))
