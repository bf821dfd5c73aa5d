"""Fit the weights to strings whose concepts are known.

The order is fitted first: of the candidates of a string, those that are right shall have the
highest score (a conditional logit). Then the confidence: whether the candidates that come first are
right. Both are fitted by Newton's method; a ramp that may only speak for, or against, stays at 0
where it would do the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medcoder.normalize.choices import Choices, Table, leaders
from medcoder.normalize.weights import CONFIDENCE_RAMPS, ORDER_RAMPS, Layout, Weights

Flags = npt.NDArray[np.bool_]
_RIDGE = 1e-3  # on ramps scaled to their spread
_PULL = 30.0  # toward the weights that were given, as so many examples would
_STEPS = 30
_LEAST = 2e-6  # gain of a step that is worth another
_JUDGED = 3  # candidates of a string that the confidence learns from
_OTHERS = 0.3  # what those after the first count


@dataclass(frozen=True, slots=True)
class Example:
    """A string with its choices, which of them are right, and what it counts."""

    choices: Choices
    right: Flags  # (n,)
    kind: str = ""  # of string: acronym, lay
    counts: float = 1.0
    answerable: bool = True  # whether it means something that the terminology has


def fit(
    examples: Sequence[Example],
    *,
    sure: Sequence[Example] | None = None,
    start: Weights | None = None,
) -> Weights:
    """The weights that suit the examples.

    sure: what the confidence is fitted to, if not to the same as the order
    start: weights that few examples move but a little
    """
    order = fit_order(examples, None if start is None else np.array(start.order))
    draft = Weights(order=tuple(order.tolist()), confidence=(), base=0.0)
    before = None if start is None else np.array([*start.confidence, start.base])
    confidence, base, usual = fit_confidence(examples if sure is None else sure, draft, before)
    return Weights(
        order=draft.order,
        confidence=tuple(confidence.tolist()),
        base=base,
        usual=tuple(usual.tolist()),
    )


def fit_order(examples: Sequence[Example], start: Table | None = None) -> Table:
    """The weights of the order."""
    some = [example for example in examples if example.right.any()]
    some = [example for example in some if not example.right.all()]
    if not some:
        return np.zeros(len(ORDER_RAMPS.sign)) if start is None else start
    rows = np.concatenate([ORDER_RAMPS.up(example.choices.table) for example in some])
    right = np.concatenate([example.right for example in some])
    sizes = np.array([len(example.right) for example in some])
    starts = np.cumsum(sizes) - sizes
    counts = np.array([example.counts for example in some])
    counts = counts / counts.sum()
    each = np.repeat(counts, sizes)

    def shares(scores: Table, of: Flags | None = None) -> Table:
        """Of the candidates of each string, what each has of the whole, or of those given."""
        plain = scores if of is None else np.where(of, scores, -np.inf)
        top = np.repeat(np.maximum.reduceat(plain, starts), sizes)
        raised = np.exp(plain - top)
        parts: Table = raised / np.repeat(np.add.reduceat(raised, starts), sizes)
        return parts

    def loss(scores: Table) -> float:
        top = np.maximum.reduceat(scores, starts)
        raised = np.exp(scores - np.repeat(top, sizes))
        meant = np.add.reduceat(np.where(right, raised, 0.0), starts)
        whole = np.add.reduceat(raised, starts)
        return float((counts * (np.log(whole) - np.log(np.maximum(meant, 1e-300)))).sum())

    def slope(scores: Table) -> tuple[Table, Callable[[Table], Table]]:
        likely, meant = shares(scores), shares(scores, right)

        def spread(scaled: Table) -> Table:
            means = np.add.reduceat(scaled * likely[:, None], starts)
            whole = scaled.T @ (scaled * (likely * each)[:, None])
            curved: Table = whole - means.T @ (means * counts[:, None])
            return curved

        return (likely - meant) * each, spread

    return _newton(rows, ORDER_RAMPS, loss, slope, start, len(some))


def fit_confidence(
    examples: Sequence[Example], draft: Weights, start: Table | None = None
) -> tuple[Table, float, Table]:
    """The weights of the confidence, its base, and how far the examples are up the ramps."""
    if not examples:
        kept = np.zeros(len(CONFIDENCE_RAMPS.sign) + 1) if start is None else start
        return kept[:-1], float(kept[-1]), np.zeros(len(kept) - 1)
    parts, right, counts = [], [], []
    for example in examples:
        order, columns = draft.put_in_order(example.choices)
        names = leaders([example.choices.candidates[position] for position in order.tolist()])
        first = np.unique(names)[:_JUDGED]  # a name teaches once
        parts.append(CONFIDENCE_RAMPS.up(columns[first]))
        right.append(example.right[order[first]])
        counts.append(np.where(np.arange(len(first)) == 0, 1.0, _OTHERS) * example.counts)
    rows = np.concatenate(parts)
    rows = np.column_stack([rows, np.ones(len(rows))])
    is_right, weight = np.concatenate(right).astype(float), np.concatenate(counts)
    weight = weight / weight.sum()

    def loss(odds: Table) -> float:
        return float((weight * (np.logaddexp(0, odds) - is_right * odds)).sum())

    def slope(odds: Table) -> tuple[Table, Callable[[Table], Table]]:
        likely = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
        curve = weight * likely * (1 - likely)
        return weight * (likely - is_right), lambda scaled: scaled.T @ (scaled * curve[:, None])

    ends = Layout(*(np.append(column, 0) for column in CONFIDENCE_RAMPS))
    *weights, base = _newton(rows, ends, loss, slope, start, len(examples)).tolist()
    return np.array(weights), float(base), weight @ rows[:, :-1]


def _newton(
    rows: Table,
    ramps: Layout,
    loss: Callable[[Table], float],
    slope: Callable[[Table], tuple[Table, Callable[[Table], Table]]],
    start: Table | None,
    examples: int,
) -> Table:
    """The weights of least loss, each of the sign that its ramp may have."""
    spread = rows.std(axis=0)
    spread[spread < 1e-9] = 1.0  # a ramp that nothing is on
    scaled = rows / spread
    toward = np.zeros(rows.shape[1]) if start is None else start * spread
    ridge = _RIDGE if start is None else _RIDGE + _PULL / examples
    weights = toward.copy()

    def total(some: Table) -> float:
        return loss(scaled @ some) + ridge / 2 * float((some - toward) @ (some - toward))

    best = total(weights)
    for _ in range(_STEPS):
        steep, curved = slope(scaled @ weights)
        gradient = scaled.T @ steep + ridge * (weights - toward)
        held = (weights == 0) & (ramps.sign * gradient > 0)
        free = np.flatnonzero(~held)
        curve = curved(scaled[:, free]) + ridge * np.eye(len(free))
        step = np.zeros_like(weights)
        step[free] = np.linalg.solve(curve, gradient[free])
        length, before = 1.0, best
        while length > 1e-6:
            moved = weights - length * step
            moved[ramps.sign * moved < 0] = 0.0
            value = total(moved)
            if value < best:
                weights, best = moved, value
                break
            length /= 2
        if before - best < _LEAST:
            break
    fitted: Table = weights / spread
    return fitted
