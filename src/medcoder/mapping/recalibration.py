"""Confidences fitted anew: their log-odds moved and stretched, by two numbers.

Two numbers are little: they cannot learn single strings by heart, and the order of the confidences
stays as it is. `fit` finds them by a logistic regression that is pulled towards leaving everything
as it is, so a few answers change little. `held_out` says how the fit does on answers that it has
not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

_EDGE = 1e-6  # confidences nearer to 0 or 1 count as this near: their log-odds have an end
# How far the two numbers are from 0 and 1 usually, before any answer is seen.
_SPREAD = np.array([0.5, 0.25])
_AS_IT_IS = np.array([0.0, 1.0])
_FLATTEST = 0.05  # slope: the order of confidences is kept, whatever was decided
_STEPS, _HALVINGS, _CLOSE = 100, 30, 1e-10
_FOLDS = 10
_BINS = 10
_CHANCE = 1.645  # standard errors: a gain beyond is chance in one of twenty cases


class Recalibration(NamedTuple):
    """What a confidence becomes; larger ones stay larger."""

    intercept: float
    slope: float

    def applied(self, confidence: float) -> float:
        """The new confidence. 0 stays 0: nothing speaks for such an answer."""
        if confidence <= 0:
            return 0.0
        held = min(max(confidence, _EDGE), 1 - _EDGE)
        odds = self.intercept + self.slope * log(held / (1 - held))
        return 1 / (1 + exp(-odds)) if odds >= 0 else exp(odds) / (1 + exp(odds))

    @classmethod
    def standing(cls, meta: Mapping[str, Any]) -> Recalibration | None:
        """The one that stands in a project; None: the confidences are those of the machine."""
        made = meta.get("recalibrations")
        return cls(made[-1]["intercept"], made[-1]["slope"]) if made else None


def fit(confidences: Floats, right: Floats) -> Recalibration:
    """The recalibration that suits answers of which some were right (1) and some wrong (0)."""
    odds = _log_odds(confidences)
    rows = np.stack([np.ones_like(odds), odds], axis=1)  # (n, 2)
    intercept, slope = _newton(rows, np.zeros_like(odds), right, _AS_IT_IS, _SPREAD)
    if slope < _FLATTEST:
        slope = _FLATTEST
        [intercept] = _newton(rows[:, :1], slope * odds, right, _AS_IT_IS[:1], _SPREAD[:1])
    return Recalibration(float(intercept), float(slope))


class HeldOut(NamedTuple):
    """How confidences do on decisions, before and after a fit that has not seen them."""

    log_loss: tuple[float, float]
    calibration_error: tuple[float, float]
    gain: bool  # whether the fit is better than chance would have it


def held_out(original: Floats, before: Floats, right: Floats, groups: Whole) -> HeldOut:
    """What a fit gains on answers that it has not seen: each tenth by a fit on the others.

    before: confidences as they stand
    groups: answers with the same number are of one string, and stay together
    """
    names, group_of = np.unique(groups, return_inverse=True)
    folds = np.random.default_rng(0).permutation(len(names)) % _FOLDS
    after = np.empty_like(before)
    for fold in range(_FOLDS):
        out = folds[group_of] == fold
        made = fit(original[~out], right[~out])
        after[out] = [made.applied(confidence) for confidence in original[out]]
    gains = _losses(before, right) - _losses(after, right)
    of_groups = np.bincount(group_of, gains - gains.mean())
    errors = calibration_error(before, right), calibration_error(after, right)
    more_than_chance = gains.sum() > _CHANCE * np.sqrt((of_groups**2).sum())
    return HeldOut(
        (float(_losses(before, right).mean()), float(_losses(after, right).mean())),
        errors,
        bool(more_than_chance) and errors[1] < errors[0],
    )


def calibration_error(confidences: Floats, right: Floats) -> float:
    """How far confidences are from the share that is right, on average over ten bins.

    The bins hold as many answers each, but equal confidences are in one bin.

    >>> calibration_error(np.array([0.8] * 10), np.array([1.0] * 9 + [0.0]))
    0.1
    """
    edges = np.quantile(confidences, np.arange(1, _BINS) / _BINS)
    bins = np.searchsorted(edges, confidences, side="right")
    gaps = np.bincount(bins, confidences - right)
    return round(float(np.abs(gaps).sum() / len(right)), 9)


def _losses(confidences: Floats, right: Floats) -> Floats:
    held = np.clip(confidences, _EDGE, 1 - _EDGE)
    losses: Floats = -np.log(np.where(right > 0, held, 1 - held))
    return losses


def _log_odds(confidences: Floats) -> Floats:
    held = np.clip(confidences, _EDGE, 1 - _EDGE)
    odds: Floats = np.log(held / (1 - held))
    return odds


def _newton(rows: Floats, offset: Floats, right: Floats, usual: Floats, spread: Floats) -> Floats:
    """Weights of the least cost: log loss of all, and how far the weights are from the usual.

    rows: (n, k); the cost has a single lowest point, and a step is halved until it leads down.
    """
    pull = 1 / spread**2

    def cost(weights: Floats) -> float:
        odds = rows @ weights + offset
        losses = np.logaddexp(0, odds) - right * odds
        return float(losses.sum() + (pull * (weights - usual) ** 2).sum() / 2)

    weights, least = usual.copy(), cost(usual)
    for _ in range(_STEPS):
        expected = np.exp(-np.logaddexp(0, -(rows @ weights + offset)))
        slope = rows.T @ (expected - right) + pull * (weights - usual)
        bend = (rows.T * (expected * (1 - expected))) @ rows + np.diag(pull)
        step = np.linalg.solve(bend, slope)
        for _ in range(_HALVINGS):
            if cost(weights - step) <= least:
                break
            step = step / 2
        weights = weights - step
        least = cost(weights)
        if np.abs(step).max() < _CLOSE:
            break
    return weights
