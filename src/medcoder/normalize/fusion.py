"""A candidate, and how cosine and letters make its score."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.normalize.filters import Allowed
from medcoder.types import Stage

_DIGITS = 9  # of scores: equal ones must not differ by how they were summed

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Candidate:
    """A concept by the best of its terms."""

    concept: int
    term: int  # number in the graph; -1 - number for one of the overlay
    stage: Stage
    cosine: float | None = None
    similarity: float | None = None
    score: float = 0.0
    known: bool = True  # whether every word of the query is in some term
    spelt: bool = False  # whether it is the query but for a slip in a word
    name: str | None = None  # the term, folded, of those that come first


class Fusion(NamedTuple):
    """How cosine and similarity make a score: see `score`."""

    gain: float = 1.0
    floor: float = 0.5

    def score(
        self,
        cosine: float | None,
        similarity: float | None,
        *,
        known: bool,
        spelt: bool = False,
    ) -> float:
        """The cosine; for a string with a word that no term has, likely a misspelling, also what
        the similarity of letters is above the floor. At most 1.

        spelt: the term is the string but for a slip in a word, which counts as similarity 1

        >>> Fusion(gain=2.0, floor=0.5).score(0.5, 0.75, known=True)
        0.5
        >>> Fusion(gain=2.0, floor=0.5).score(0.5, 0.75, known=False)
        0.5
        >>> Fusion(gain=2.0, floor=0.5).score(0.5, 1.0, known=False)
        0.75
        """
        if cosine is None or similarity is None:
            return cosine or similarity or 0.0
        return float(self.scores(cosine, similarity, known=known, spelt=spelt))

    def scores(self, cosine: Any, similarity: Any, *, known: Any, spelt: Any) -> Reals:
        """The same of arrays, where both are there."""
        letters = np.where(spelt, 1.0, similarity)
        best = 1 + self.gain * (1 - self.floor)
        fused = (cosine + self.gain * np.maximum(letters - self.floor, 0.0)) / best
        by_meaning = np.asarray(known) | (not self.gain)
        found: Reals = np.where(by_meaning, cosine, np.round(fused, _DIGITS))
        return found


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the stages have in common for one batch of queries."""

    top: int
    stages: Collection[Stage]
    fusion: Fusion
    allowed: Allowed | None = None
