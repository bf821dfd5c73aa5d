"""Confidences are fitted anew by two numbers, and gains are measured on what was held out."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.mapping.recalibration import Recalibration, calibration_error, fit, held_out


def drawn(count, intercept, slope, *, seed=1):
    """Confidences, and what is right if their log-odds are off by two numbers."""
    draw = np.random.default_rng(seed)
    odds = draw.normal(1.5, 1.5, count)
    chance = 1 / (1 + np.exp(-intercept - slope * odds))
    return 1 / (1 + np.exp(-odds)), (draw.random(count) < chance).astype(float)


def alone(count):
    """Each of a string of its own."""
    return np.arange(count)


SHARES = st.floats(0, 1)


@given(st.floats(-100, 100), st.floats(0.05, 100), st.lists(SHARES, min_size=2, max_size=8))
def test_the_order_of_confidences_stays(intercept, slope, shares):
    made = Recalibration(intercept, slope)
    found = [made.applied(share) for share in sorted(shares)]
    assert found == sorted(found)
    assert all(0 <= share <= 1 for share in found)


def test_what_two_numbers_make_of_a_confidence():
    made = Recalibration(-1.0, 0.5)
    odds = -1.0 + 0.5 * math.log(0.9 / 0.1)
    assert made.applied(0.9) == pytest.approx(1 / (1 + math.exp(-odds)))
    assert made.applied(0.0) == 0.0
    assert 0.9 < Recalibration(0.0, 1.0).applied(1.0) < 1.0
    assert Recalibration(0.0, 1.0).applied(0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("intercept", "slope"), [(0, 1), (-1, 1), (0.5, 0.6), (0, 1.4)])
def test_a_fit_on_many_finds_the_numbers(intercept, slope):
    made = fit(*drawn(40_000, intercept, slope))
    assert made == pytest.approx((intercept, slope), abs=0.06)


def test_the_fit_is_the_lowest_point_of_its_cost():
    confidences, right = drawn(300, -1, 0.7)

    def cost(intercept, slope):
        pulled = (intercept / 0.5) ** 2 / 2 + ((slope - 1) / 0.25) ** 2 / 2
        chances = [Recalibration(intercept, slope).applied(share) for share in confidences]
        logs = [math.log(c if true else 1 - c) for c, true in zip(chances, right, strict=True)]
        return pulled - sum(logs)

    intercept, slope = fit(confidences, right)
    least = cost(intercept, slope)
    for step in (0.01, -0.01):
        assert cost(intercept + step, slope) > least
        assert cost(intercept, slope + step) > least


def test_few_answers_change_little():
    nothing = np.array([])
    assert fit(nothing, nothing) == pytest.approx((0, 1))
    confidences, right = drawn(40_000, -2, 1)
    sizes = [abs(fit(confidences[:count], right[:count]).intercept) for count in (2, 20, 2000)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.4 < 1.8 < sizes[-1]


def test_answers_that_run_against_the_confidence_leave_its_order():
    confidences, right = drawn(2000, 2, -1)
    made = fit(confidences, right)
    assert made.slope == 0.05
    found = np.array([made.applied(share) for share in confidences])
    assert found.mean() == pytest.approx(right.mean(), abs=0.02)


@pytest.mark.parametrize("edge", [0.0, 1.0, 1e-12])
def test_certainty_that_is_wrong_has_an_end(edge):
    confidences = np.array([edge, 0.5] * 100)
    made = fit(confidences, np.array([1 - round(edge), 1.0] * 100))
    assert all(math.isfinite(number) for number in made)
    assert 0.05 <= made.slope < 10


def test_a_gain_is_seen_on_what_was_held_out():
    confidences, right = drawn(600, -1, 1)
    found = held_out(confidences, confidences, right, alone(600))
    assert found.gain
    assert found.log_loss[1] < found.log_loss[0] - 0.05
    assert found.calibration_error[1] < 0.06 < 0.12 < found.calibration_error[0]


@pytest.mark.parametrize("seed", range(8))
def test_calibrated_confidences_leave_nothing_to_gain(seed):
    confidences, right = drawn(250, 0, 1, seed=seed)
    assert not held_out(confidences, confidences, right, alone(250)).gain


def test_what_stands_is_compared_with_a_fit_on_the_machine():
    """A recalibration that was wrong for the machine of today is seen to be."""
    confidences, right = drawn(600, 0, 1)
    worse = np.array([Recalibration(-2, 1).applied(share) for share in confidences])
    found = held_out(confidences, worse, right, alone(600))
    assert found.gain
    assert found.log_loss[1] < found.log_loss[0]


def test_held_out_figures_are_of_answers_that_the_fit_has_not_seen():
    """Each fold by a naive loop: fits on the others, losses one by one."""
    confidences, right = drawn(230, -0.5, 0.8)
    groups = np.arange(230) // 2 * 7  # two of a string, with numbers that leave gaps
    folds = np.random.default_rng(0).permutation(115) % 10
    losses = []
    for number, (share, true) in enumerate(zip(confidences, right, strict=True)):
        others = folds[np.arange(230) // 2] != folds[number // 2]
        chance = fit(confidences[others], right[others]).applied(share)
        losses.append(-math.log(chance if true else 1 - chance))
    found = held_out(confidences, confidences, right, groups)
    assert found.log_loss[1] == pytest.approx(sum(losses) / 230)


def test_one_string_that_is_decided_often_is_no_gain():
    """Two hundred decisions on one string are one piece of evidence: none of it is held out."""
    confidences, right = np.full(200, 0.9), np.array([1.0, 0.0] * 100)
    assert not held_out(confidences, confidences, right, np.zeros(200, int)).gain
    assert held_out(confidences, confidences, right, alone(200)).gain


def naive_error(confidences, right):
    """By the definition: ten bins between quantiles, equal confidences in one."""
    edges = [np.quantile(confidences, part / 10) for part in range(1, 10)]
    bins = {}
    for share, true in zip(confidences, right, strict=True):
        bins.setdefault(sum(share >= edge for edge in edges), []).append((share, true))
    gaps = [abs(sum(s for s, _ in some) - sum(t for _, t in some)) for some in bins.values()]
    return sum(gaps) / len(right)


@pytest.mark.parametrize("seed", range(3))
def test_calibration_error(seed):
    draw = random.Random(seed)
    confidences = np.array([draw.choice([0.1, 0.5, 0.9, draw.random()]) for _ in range(200)])
    right = np.array([float(draw.random() < 0.6) for _ in range(200)])
    assert calibration_error(confidences, right) == pytest.approx(naive_error(confidences, right))
