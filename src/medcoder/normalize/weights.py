"""The model that orders candidates and says how sure to be of each: two lists of weights.

The order goes by a score, a sum of what the features of a candidate count. A feature counts by
ramps between knots, so that a step from 0.9 to 1 may count more than one from 0.5 to 0.6; where a
feature can only speak for a candidate, or only against it, no ramp counts the other way.

The confidence is a logistic regression, on the same features and on how far the score is ahead of
that of every rival. It is stated with caution: what is right in 93 of 100 times is stated as 0.9,
since a wrong code that is called sure costs more than a right one that is not. It never rises from
one candidate to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from medcoder.normalize.choices import COLUMNS, OF_TEXT, Choices, Table, leaders
from medcoder.normalize.reasons import BASE

_FAR = 8.0  # scores that a candidate is ahead at most
_ALONE = 3.0  # how far what has no rival is ahead of the last
_CERTAIN = 20.0  # log-odds that no confidence is beyond
# Log-odds as they are fitted, and as they are stated: 0.8, 0.93 as 0.9, 0.99 as 0.988.
_FITTED = (-_CERTAIN, 1.386, 2.587, 4.595, _CERTAIN)
_STATED = (-_CERTAIN, 1.386, 2.197, 4.411, _CERTAIN)


class Ramps(NamedTuple):
    """How a feature counts: between which knots, and whether only for (1) or against (-1)."""

    feature: str
    knots: tuple[float, ...]
    sign: int = 0


_COSINES = (0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_BEHIND = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
_SHARES = (0.0, 0.33, 0.66, 0.9, 1.0)
_OWN = (
    Ramps("cosine", _COSINES, 1),
    Ramps("name", _COSINES, 1),
    Ramps("centre", (0.0, 0.4, 0.6, 0.7, 0.8, 1.0), 1),
    Ramps("second", (0.0, 0.5, 0.7, 0.9, 1.0), 1),
    Ramps("letters", (0.0, 0.3, 0.5, 0.7, 1.0), 1),
    Ramps("spelling", (0.0, 0.3, 0.5, 0.7, 0.9, 1.0), 1),
    Ramps("said", _SHARES, 1),
    Ramps("covered", _SHARES, 1),
    Ramps("said_most", (0.0, 0.2, 0.5, 1.0), -1),
    Ramps("extra_most", (0.0, 0.2, 0.5, 1.0), -1),
    Ramps("numbers_lacking", (0.0, 3.0), -1),
    Ramps("numbers_extra", (0.0, 3.0), -1),
    Ramps("marks_lacking", (0.0, 2.0), -1),
    Ramps("marks_extra", (0.0, 2.0), -1),
    Ramps("side_other", (0.0, 1.0), -1),
    Ramps("side_extra", (0.0, 1.0), -1),
    Ramps("circumstance", (0.0, 3.0), -1),
    Ramps("name_circumstance", (0.0, 3.0), -1),
    Ramps("aside", (0.0, 1.0)),
    Ramps("open", (0.0, 1.0)),
    Ramps("preferred", (0.0, 1.0)),
    Ramps("derived", (0.0, 1.0)),
    Ramps("includes", (0.0, 1.0)),
    Ramps("names", (0.0, 1.0, 2.0, 4.0)),
    Ramps("slip", (0.0, 1.0), 1),
    Ramps("near", (0.0, 1.0), 1),
    Ramps("support", (0.0, 1.0, 2.0, 4.0), 1),
    Ramps("length", (-6.0, 0.0, 2.0, 4.0, 8.0)),
    Ramps("lookalike", (0.0, 0.6, 0.8, 1.0)),
    Ramps("weight", (-4.0, -2.0, -1.0, -0.5, 0.0), 1),
    Ramps("written", (0.0, 1.0)),
)
ORDER = (
    *_OWN,
    Ramps("cosine_behind", _BEHIND, -1),
    Ramps("name_behind", _BEHIND, -1),
    Ramps("centre_behind", _BEHIND, -1),
    Ramps("spelling_behind", (0.0, 0.1, 0.3, 0.6), -1),
    Ramps("covered_behind", (0.0, 0.1, 0.3, 0.6), -1),
    Ramps("said_behind", (0.0, 0.1, 0.3, 0.6), -1),
    Ramps("cosine_known", (0.0, 1.0)),
    Ramps("said_known", (0.0, 1.0)),
    Ramps("covered_known", (0.0, 1.0)),
    Ramps("spelling_known", (0.0, 1.0)),
    Ramps("letters_known", (0.0, 1.0)),
)
# Of a candidate among the others, once all have their scores.
AMONG = (
    "ahead", "ahead_of_all", "share", "share_alike", "cosine_ahead", "centre_ahead", "kin",
    "share_in_few", "alone",
)  # fmt: skip
CONFIDENCE = (
    *_OWN,
    Ramps("certain", (0.0, 1.0), 1),
    Ramps("own_name", (0.0, 1.0), 1),
    Ramps("known", (0.0, 1.0)),
    Ramps("cosine_known", (0.0, 0.6, 0.8, 1.0)),
    Ramps("said_known", (0.0, 1.0)),
    Ramps("covered_known", (0.0, 1.0)),
    Ramps("ahead", (-8.0, -2.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0), 1),
    Ramps("ahead_of_all", (-8.0, 0.0, 0.5, 1.0, 2.0, 8.0), 1),
    Ramps("share", (0.0, 0.2, 0.5, 0.8, 1.0), 1),
    Ramps("share_alike", (0.0, 0.2, 0.5, 0.8, 0.95, 1.0), 1),
    Ramps("cosine_ahead", (-0.2, 0.0, 0.02, 0.05, 0.1, 0.3), 1),
    Ramps("centre_ahead", (-0.2, 0.0, 0.05, 0.1, 0.3), 1),
    Ramps("kin", (0.0, 1.0)),
    Ramps("share_in_few", (0.0, 0.3, 1.0)),
    Ramps("alone", (0.0, 1.0), -1),
    Ramps("words", (1.0, 2.0, 4.0, 8.0)),
    Ramps("signs", (1.0, 3.0, 5.0, 8.0, 12.0, 30.0)),
    Ramps("ideographs", (0.0, 1.0)),
    Ramps("other_script", (0.0, 1.0)),
    Ramps("capitals", (0.0, 1.0)),
    Ramps("digits", (0.0, 1.0)),
    Ramps("readings", (1.0, 2.0, 4.0)),
)  # fmt: skip
# Of the ramps of the confidence: how many there are, and the first of each feature.
_RAMPS = sum(len(some.knots) - 1 for some in CONFIDENCE)
_FIRST_RAMPS = np.cumsum([0, *(len(some.knots) - 1 for some in CONFIDENCE[:-1])])
_COLUMN = {name: number for number, name in enumerate((*COLUMNS, *AMONG, *OF_TEXT))}


class Ranked(NamedTuple):
    """Candidates in order."""

    order: npt.NDArray[np.intp]  # their positions among the choices, best first
    confidences: Table  # in that order
    columns: Table  # (n, columns), in that order: what `contributions` takes


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What the ramps of `ORDER` and `CONFIDENCE` count, and the confidence of nothing known."""

    order: tuple[float, ...]
    confidence: tuple[float, ...]
    base: float
    usual: tuple[float, ...] = ()  # how far what it was fitted to is up the ramps, on average

    def rank(self, some: Choices) -> Ranked:
        """The candidates in order, with their confidences."""
        order, columns = self.put_in_order(some)
        odds = CONFIDENCE_RAMPS.sum(columns, self.confidence) + self.base
        likely = stated(odds)
        names = leaders([some.candidates[position] for position in order.tolist()])
        falling: Table = np.minimum.accumulate(likely[names])  # the confidence is of the name
        return Ranked(order, np.round(falling, 9), columns)

    def put_in_order(self, some: Choices) -> tuple[npt.NDArray[np.intp], Table]:
        """Positions of the concepts, best first, and the columns of each.

        What is certain comes first, and stays in its order. A concept that several readings lead to
        counts by the best of them. Concepts of one name stand where the best of them does.
        """
        scores = ORDER_RAMPS.sum(some.table, self.order)
        order = np.argsort(-np.where(some.certain, np.inf, scores), kind="stable")
        concepts = [some.candidates[position].concept for position in order.tolist()]
        order = order[np.sort(np.unique(concepts, return_index=True)[1])]
        names = leaders([some.candidates[position] for position in order.tolist()])
        order = order[np.argsort(names, kind="stable")]
        return order, among(some, scores, order)

    def contributions(self, columns: Table) -> dict[str, float]:
        """What each feature adds to the log-odds of a usual candidate, from a row of columns."""
        weights, usual = np.array(self.confidence), np.array(self.usual or np.zeros(_RAMPS))
        parts = (CONFIDENCE_RAMPS.up(columns[None])[0] - usual) * weights
        counted = np.add.reduceat(parts, _FIRST_RAMPS).tolist()
        names = (some.feature for some in CONFIDENCE)
        return dict(zip(names, counted, strict=True)) | {BASE: self.base + float(usual @ weights)}

    def as_dict(self) -> dict[str, Any]:
        """By the names of the features, with the knots that they were fitted for."""
        return {
            "order": _named(ORDER, self.order),
            "confidence": _named(CONFIDENCE, self.confidence),
            "base": self.base,
            "usual": list(self.usual),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        order = _listed(ORDER, stored["order"])
        confidence, base = _listed(CONFIDENCE, stored["confidence"]), stored["base"]
        usual = tuple(stored["usual"])
        if not all(type(value) in (int, float) and isfinite(value)
                   for value in (*order, *confidence, base, *usual)):  # fmt: skip
            raise ValueError("its weights are not all numbers")
        if len(usual) not in (0, len(confidence)):
            raise ValueError("its usual values are not one for each weight")
        return cls(order=order, confidence=confidence, base=base, usual=usual)


def stated(odds: npt.ArrayLike) -> Table:
    """The confidences of log-odds, as they are stated: with caution.

    >>> stated([0.0, 1.386, 2.587, 4.595]).round(3).tolist()
    [0.5, 0.8, 0.9, 0.988]
    """
    likely: Table = 1 / (1 + np.exp(-np.interp(np.asarray(odds, float), _FITTED, _STATED)))
    return likely


def among(some: Choices, scores: Table, order: npt.NDArray[np.intp]) -> Table:
    """The columns of candidates in order, with what they are among each other by their scores."""
    table, scores = some.table[order], scores[order]
    rivals, count = ~some.alike[np.ix_(order, order)], len(order)
    likely = np.exp(scores - scores.max())
    likely /= likely.sum()
    others = ~np.eye(count, dtype=bool)
    cosine, centre = (table[:, _COLUMN[name]] for name in ("cosine", "centre"))
    low = float(scores.min()) - _ALONE
    rival = int(np.argmax(np.where(rivals[0], scores, -np.inf)))
    unlike = (table[:, _COLUMN["spelling"]] < 1).astype(float)  # a name itself is no neighbour
    kin = bool(rivals[0].any()) and some.related(int(order[0]), int(order[rival]))
    columns = (
        np.clip(scores - _best(scores, rivals, low), -_FAR, _FAR),
        np.clip(scores - _best(scores, others, low), -_FAR, _FAR),
        likely,
        ~rivals @ likely,
        cosine - _best(cosine, rivals, 0.0),
        centre - _best(centre, rivals, 0.0),
        np.full(count, float(kin)),
        ~rivals @ likely * some.few * unlike,
        some.few * unlike,
    )
    of_text = np.broadcast_to(some.of_text, (count, len(some.of_text)))
    return np.column_stack([table, *columns, of_text])


class Layout(NamedTuple):
    """Of each ramp the column, where it starts and ends, and how it may count."""

    column: npt.NDArray[np.int64]
    low: Table
    high: Table
    sign: npt.NDArray[np.int64]

    def up(self, columns: Table) -> Table:
        """How far each row of columns is up each ramp (n, ramps)."""
        return np.clip(columns[:, self.column], self.low, self.high) - self.low

    def sum(self, columns: Table, weights: Sequence[float]) -> Table:
        """What the ramps count for each row, whatever row it is: equal ones stay equal."""
        total: Table = np.einsum("nr,r->n", self.up(columns), np.array(weights))
        return total


def _laid_out(used: Sequence[Ramps]) -> Layout:
    rows = [
        (_COLUMN[some.feature], low, high, some.sign)
        for some in used
        for low, high in zip(some.knots[:-1], some.knots[1:], strict=True)
    ]
    column, low, high, sign = zip(*rows, strict=True)
    return Layout(np.array(column), np.array(low), np.array(high), np.array(sign))


ORDER_RAMPS, CONFIDENCE_RAMPS = _laid_out(ORDER), _laid_out(CONFIDENCE)


def _best(values: Table, others: npt.NDArray[np.bool_], none: float) -> Table:
    """Of each row the best value among its others."""
    best: Table = np.where(others, values[None, :], -np.inf).max(axis=1)
    return np.where(np.isfinite(best), best, none)


def _named(used: Sequence[Ramps], weights: Sequence[float]) -> dict[str, list[list[float]]]:
    left = iter(weights)
    return {some.feature: [list(some.knots), [next(left) for _ in some.knots[1:]]] for some in used}


def _listed(used: Sequence[Ramps], stored: Mapping[str, Any]) -> tuple[float, ...]:
    weights: list[float] = []
    for some in used:
        knots, counted = stored[some.feature]
        if tuple(knots) != some.knots or len(counted) != len(knots) - 1:
            raise ValueError(f"{some.feature} has other knots")
        weights += counted
    if len(stored) != len(used):
        raise ValueError("it has other features")
    return tuple(weights)
