"""Measures against naive loops, cases worked by hand and scipy."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medcoder.errors import MissingExtra
from medcoder.evaluate.metrics import (
    discounts,
    hits_at,
    mcsm_gains,
    mean,
    neighbourhood_purity,
    precision_recall_f1,
    spearman,
)

# Linking


def test_hits_among_the_first_k():
    ranks = np.array([0, 1, 2, 3, -1])
    assert hits_at(ranks, 1).tolist() == [1, 0, 0, 0, 0]
    assert hits_at(ranks, 3).tolist() == [1, 1, 1, 0, 0]


def test_the_mean_of_folds_is_not_weighted_by_their_size():
    values = np.array([1, 1, 1, 1, 0, 0.0])
    folds = np.array(["a", "a", "a", "a", "b", "b"])
    assert mean(values).value == pytest.approx(4 / 6)
    assert mean(values, groups=folds).value == pytest.approx((1 + 0) / 2)


def test_folds_are_resampled_within_themselves():
    """Each fold is all right or all wrong: whatever is drawn, the mean of folds is the same."""
    values, folds = np.array([1, 1, 1, 0, 0.0]), np.array([0, 0, 0, 1, 1])
    assert mean(values, groups=folds) == (0.5, 0.5, 0.5)
    whole = mean(values)
    assert whole.low < 0.6 < whole.high


def test_an_interval_of_a_share_is_that_of_the_binomial():
    """Of 400 items with a share of 0.3: 95% within about 1.96 * sqrt(0.3 * 0.7 / 400)."""
    values = np.repeat([1.0, 0.0], [120, 280])
    found = mean(values, resamples=4000)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 400)
    assert found.value == pytest.approx(0.3)
    assert found.low == pytest.approx(0.3 - half, abs=0.006)
    assert found.high == pytest.approx(0.3 + half, abs=0.006)


def test_an_interval_is_the_percentiles_of_naive_resamples():
    values, seed = np.array([0.0, 1.0, 3.0, 7.0]), 5
    rng = np.random.default_rng((seed, 0))
    drawn = []
    for rows in rng.integers(0, 4, size=(200, 4)):
        drawn.append(sum(values[row] for row in rows) / 4)
    found = mean(values, resamples=200, seed=seed)
    assert found.low == pytest.approx(np.quantile(drawn, 0.025))
    assert found.high == pytest.approx(np.quantile(drawn, 0.975))


def test_intervals_are_the_same_whatever_is_drawn_at_a_time(monkeypatch):
    values = np.arange(50.0)
    at_once = mean(values, resamples=300)
    monkeypatch.setattr("medcoder.evaluate.metrics._CELLS", 120)
    assert mean(values, resamples=300) == at_once
    assert mean(values, resamples=300, seed=1) != at_once


def test_no_resamples_no_interval():
    assert mean(np.array([0.0, 1.0]), resamples=0) == (0.5, 0.5, 0.5)
    assert spearman([1, 2, 3], [1, 3, 2], resamples=0).low == pytest.approx(0.5)


def test_nothing_has_no_mean():
    assert math.isnan(mean(np.array([])).value)


def test_precision_and_recall_by_hand():
    """Three spans with 1, 2 and 1 gold ids; the first two get a right id, the last none at all."""
    found = precision_recall_f1(np.array([1, 1, 0]), np.array([1, 1, 0]), np.array([1, 2, 1]))
    precision, recall, f1 = (estimate.value for estimate in found)
    assert (precision, recall) == (2 / 2, 2 / 4)
    assert f1 == pytest.approx(2 * 1.0 * 0.5 / 1.5)
    assert all(estimate.low <= estimate.value <= estimate.high for estimate in found)


def test_nothing_predicted_has_no_precision():
    found = precision_recall_f1(np.array([0, 0]), np.array([0, 0]), np.array([1, 1]))
    assert [estimate.value for estimate in found] == [0, 0, 0]


# MCSM


def test_the_upper_bound_of_mcsm():
    assert discounts(40).sum() == pytest.approx(11.09, abs=0.005)
    assert discounts(2).tolist() == [1.0, 1 / math.log2(3)]


def test_mcsm_by_hand():
    """Neighbours of the type at ranks 1 and 3: 1/log2(2) + 1/log2(4) = 1.5."""
    same = np.array([[True, False, True], [False, False, False]])
    assert mcsm_gains(same).tolist() == [1.5, 0.0]


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=8))
def test_mcsm_is_the_sum_of_the_paper(rows):
    expected = [sum(1 / math.log2(i + 1) for i, has in enumerate(row, 1) if has) for row in rows]
    assert mcsm_gains(np.array(rows)) == pytest.approx(expected)


# Spearman


@given(st.data())
def test_spearman_is_that_of_scipy(data):
    n = data.draw(st.integers(3, 20))
    numbers = st.lists(st.integers(-4, 4), min_size=n, max_size=n).filter(lambda x: len(set(x)) > 1)
    left, right = data.draw(numbers), data.draw(numbers)
    expected = stats.spearmanr(left, right).statistic
    assert spearman(left, right, resamples=20).value == pytest.approx(expected)


def test_the_interval_of_spearman_is_over_pairs():
    rng = np.random.default_rng(3)
    left = rng.normal(size=60)
    right = left + rng.normal(size=60)
    draws = np.random.default_rng((7,)).integers(0, 60, size=(50, 60))
    naive = [stats.spearmanr(left[rows], right[rows]).statistic for rows in draws]
    found = spearman(left, right, resamples=50, seed=7)
    assert found.low == pytest.approx(np.quantile(naive, 0.025))
    assert found.high == pytest.approx(np.quantile(naive, 0.975))


def test_without_scipy_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtra, match=r"medcoder\[eval\]"):
        spearman([1, 2], [2, 1])


def test_a_constant_correlates_with_nothing():
    assert spearman([1, 1, 1], [1, 2, 3]).value == 0


# Neighbourhoods


def naive_purity(points, labels, k):
    shares = []
    for i, point in enumerate(points):
        others = [j for j in range(len(points)) if j != i]
        wanted = min(k, sum(labels[j] == labels[i] for j in others))
        if wanted:
            near = sorted(others, key=lambda j: (math.dist(point, points[j]), j))[:wanted]
            shares.append(sum(labels[j] == labels[i] for j in near) / wanted)
    return sum(shares) / len(shares)


def test_purity_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(40, 2)), rng.integers(0, 5, size=40)
    assert neighbourhood_purity(points, labels, k=4) == pytest.approx(
        naive_purity(points.tolist(), labels.tolist(), 4)
    )


def test_purity_by_hand():
    """Pairs that lie together are pure, however small; a label of one point does not count."""
    points = np.array([[0, 0], [0, 1], [9, 0], [9, 1], [50, 50.0]])
    assert neighbourhood_purity(points, np.array(["a", "a", "b", "b", "c"])) == 1.0
    assert neighbourhood_purity(points, np.array(["a", "b", "a", "b", "c"])) == 0.0
    assert math.isnan(neighbourhood_purity(points, np.arange(5)))
