"""How the promise was kept so far: of what is mapped automatically, how much people found right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from medcoder.mapping.judgements import looked_at
from medcoder.mapping.project import Project
from medcoder.mapping.project.schema import guarded

_TAIL = 0.025  # on either side of a 95% interval
_HALVINGS = 60
REMEDY = (
    "Run medcoder map calibrate on the project, or the command that made it with a higher "
    "--precision"
)


class Promise(NamedTuple):
    """What was promised, and what people found."""

    promised: float | None  # precision of automatic mappings
    looked_at: int  # automatic mappings that people decided on one by one since
    right: int  # of these, first candidates that were accepted
    share: float | None  # right of those looked at; None: nobody looked yet
    low: float | None  # the 95% interval of the share
    high: float | None
    broken: bool  # the whole interval is below the promise
    warning: str  # what that means, and what to do; "" if the promise holds so far

    @property
    def words(self) -> str:
        """In a sentence; "" where nobody looked yet."""
        if self.share is None:
            return ""
        return (
            f"of the automatic mappings, people looked at {self.looked_at:,} one by one and found "
            f"{self.right:,} right: {percent(self.share)} (95% interval {percent(self.low)} to "
            f"{percent(self.high)}), {percent(self.promised)} promised"
        )

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def promise(project: Project) -> Promise:
    """How the promise of a project was kept so far.

    Automatic is what would be mapped automatically now, if nobody had decided on it. Decisions
    that were made in bulk are no look.
    """
    with guarded(project.path):
        judged, right = looked_at(project.base)
    promised = project.meta.get("precision")
    if not judged:
        return Promise(promised, 0, 0, None, None, None, broken=False, warning="")
    low, high = interval(right, judged)
    broken = promised is not None and high < promised
    warning = (
        f"the promise is not kept: {percent(promised)} of automatic mappings were to be right, and "
        f"of {judged:,} that people looked at, {right:,} were ({percent(right / judged)}, at most "
        f"{percent(high)} by a 95% interval). {REMEDY}"
    )
    return Promise(
        promised, judged, right, right / judged, low, high, broken, warning if broken else ""
    )


def interval(right: int, count: int) -> tuple[float, float]:
    """The 95% interval of a share, by the exact binomial distribution (Clopper and Pearson).

    >>> [round(end, 4) for end in interval(9, 10)]
    [0.555, 0.9975]
    >>> [round(end, 4) for end in interval(0, 20)]
    [0.0, 0.1684]
    """
    return 1 - _most(count - right, count), _most(right, count)


def _most(right: int, count: int) -> float:
    """The largest probability at which no more than `right` of `count` are not too unlikely."""
    if right == count:
        return 1.0
    numbers = np.arange(1, right + 1)
    # log of the binomial coefficients, from that of none on
    ways = np.concatenate([[0.0], np.cumsum(np.log((count - numbers + 1) / numbers))])
    numbers = np.arange(right + 1)
    low, high = right / count, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        logs = ways + numbers * np.log(middle) + (count - numbers) * np.log1p(-middle)
        if np.exp(logs).sum() >= _TAIL:
            low = middle
        else:
            high = middle
    return low


def percent(share: float | None) -> str:
    """A share, never rounded up to all or down to nothing.

    >>> percent(0.9996), percent(1.0), percent(0.0001), percent(None)
    ('> 99.9%', '100%', '< 0.1%', '–')
    """
    if share is None:
        return "–"
    if share in (0, 1):
        return f"{share:.0%}"
    if share > 0.9995:
        return "> 99.9%"
    if share < 0.0005:
        return "< 0.1%"
    return f"{100 * share:.1f}%"
