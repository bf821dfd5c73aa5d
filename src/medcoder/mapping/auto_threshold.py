"""What may be mapped automatically: the promised precision, and what to expect of it.

A confidence is the calibrated probability that the first candidate is right, so the mean
confidence of a set is the share of it that is expected to be right. The threshold is the lowest
confidence at which that mean still reaches the promise: over the source terms, over the rows, and
over the rows as often as their counts say. No single mapping below the floor is accepted, however
good the others are: none may be more than five times as likely to be wrong as promised. What a
person must look at, for a reason of its own, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medcoder.mapping.project import Project, queries, stored
from medcoder.mapping.project.schema import guarded

_TIMES = 5
_LEAST = 0.5  # more likely right than wrong
_QUERY = f"""SELECT s.confidence, count(*), sum(t.rows), sum(t.count)
    FROM terms t JOIN strings s ON s.id = t.string WHERE {queries.TRUSTED} AND s.confidence >= ?
    GROUP BY s.confidence ORDER BY s.confidence DESC"""


def floor(precision: float) -> float:
    """The least confidence that any automatic mapping has.

    >>> floor(0.98), floor(0.8)
    (0.9, 0.5)
    """
    return max(_LEAST, round(1 - _TIMES * (1 - precision), 9))


def auto_threshold(project: Project, precision: float) -> dict[str, Any]:
    """Threshold and expected precision, as the meta data of a project has them."""
    with guarded(project.path):
        groups = map(_checked, project.base.execute(_QUERY, [floor(precision)]))
        return lowest_threshold(groups, precision)


def _checked(group: tuple[Any, ...]) -> tuple[float, int, int, int]:
    confidence, *weights = group
    if not stored.is_share(confidence):
        raise stored.Strange("confidence", "strings", confidence)
    stored.wholes((*weights,), "terms rows count", "terms")
    return (confidence, *weights)


def lowest_threshold(
    groups: Iterable[tuple[float, int, int, int]], precision: float
) -> dict[str, Any]:
    """The same of confidences, each once and the largest first, with their terms, rows and counts.

    None is below the floor.
    """
    sums, weights = [0.0] * 3, [0] * 3  # of terms, rows and counts
    threshold: float | None = None
    expected: tuple[float | None, ...] = (None,) * 3
    for confidence, *some in groups:
        sums = [total + confidence * weight for total, weight in zip(sums, some, strict=True)]
        weights = [total + weight for total, weight in zip(weights, some, strict=True)]
        means = [
            total / weight if weight else 1.0 for total, weight in zip(sums, weights, strict=True)
        ]
        if min(means) < precision:  # means only fall from here on
            break
        threshold, expected = confidence, tuple(means)
    names = ("terms", "rows", "count")
    return {
        "precision": precision,
        "threshold": threshold,
        "expected": dict(zip(names, expected, strict=True)),
    }
