"""A batch of queries on its way through the stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.index import Mask
from medcoder.normalize.fusion import Flags, Reals, Search
from medcoder.normalize.owners import Ints, Owners
from medcoder.normalize.slips import as_spelt

_ROWS = 32  # the least
_LEAST = 5  # concepts, whatever is asked for: confidence is about how far the best is ahead

Floats = npt.NDArray[np.float32]


class Batch(NamedTuple):
    """A batch of queries, and what may be answered with."""

    texts: Sequence[str]
    words: list[list[str]]
    known_words: list[list[bool]]  # which of them are in some term
    known: Flags  # whether all are
    owners: Owners
    custom: Mask  # of the terms of the overlay
    search: Search

    @property
    def letters(self) -> bool:
        return "ngram" in self.search.stages

    def spelt(self, query: int, words: Sequence[str]) -> bool:
        """Whether a query is these words but for a slip in one that no term has."""
        return as_spelt(self.words[query], self.known_words[query], words)

    @property
    def wanted(self) -> int:
        return max(self.search.top, _LEAST)

    @property
    def rows(self) -> int:
        return rows_of(self.search)


def rows_of(search: Search) -> int:
    """Rows that a stage looks at for each query."""
    return max(_ROWS, 4 * search.top)


class Scored(NamedTuple):
    """Terms of queries with their scores."""

    query: Ints
    concept: Ints
    term: Ints
    dense: Flags  # whether meaning found it, not letters alone
    cosine: Reals  # or nan
    similarity: Reals  # or nan
    score: Reals
    spelt: Flags

    def of(self, chosen: npt.NDArray[np.intp]) -> Scored:
        columns: Iterable[Any] = (column[chosen] for column in self)
        return Scored(*columns)
