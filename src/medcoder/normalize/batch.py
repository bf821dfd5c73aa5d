"""A batch of queries on its way through the stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.index import Mask
from medcoder.normalize.fusion import Flags, Reals, Search
from medcoder.normalize.owners import Ints, Owners
from medcoder.normalize.slips import as_spelt

_ROWS = 32  # the least
_LEAST = 5  # concepts, whatever is asked for: confidence is about how far the best is ahead

_PAIRS = 1 << 14  # of a query and a row that a stage finds at a time

Floats = npt.NDArray[np.float32]
Embed = Callable[[list[int]], Floats]  # vectors (n, d) of some queries, by their places
Hidden = Sequence[Collection[int]]  # terms that do not exist for each query


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


def parts(
    queries: Sequence[str], embed: Embed | None, search: Search, without: Hidden | None
) -> Iterator[tuple[Sequence[str], Embed | None, Search, Hidden | None]]:
    """What is asked, as many queries at a time as have room in memory."""
    size = max(_PAIRS // rows_of(search), 1)
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        yield (
            queries[part],
            embed and _shifted(embed, start),
            search,
            without if without is None else without[part],
        )


def _shifted(embed: Embed, start: int) -> Embed:
    """Of queries that are numbered from `start` on."""
    return lambda places: embed([start + place for place in places])


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
