"""A batch of queries on its way through the stages, and what comes out: pairs, then candidates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from medcoder.index import Mask
from medcoder.normalize.filters import Allowed, Ints, RowTerms
from medcoder.normalize.typos import NEAR_LETTERS, as_spelt

ROWS = 32  # the least
_LEAST = 8  # concepts, whatever is asked for: confidence is about how far the best is ahead
_PAIRS = 1 << 14  # of a query and a row that a stage finds at a time
_MORE = 4  # times as many rows when they are of too few concepts
_DIGITS = 9  # of scores: equal ones must not differ by how they were summed

SLIP = "slip"  # the stage of what the letters stages show to be the query but for a slip

Floats = npt.NDArray[np.float32]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Embed = Callable[[list[int]], Floats]  # vectors (n, d) of some queries, by their positions
Hidden = Sequence[Collection[int]]  # terms that do not exist for each query


@dataclass(slots=True)
class Candidate:
    """A concept by the best of its terms."""

    concept: int
    term: int  # number in the graph; -1 - number for a custom one
    stage: str
    cosine: float | None = None
    similarity: float | None = None
    score: float = 0.0
    known: bool = True  # whether every word of the query is one, of a term or of a language
    spelt: bool = False  # whether it is the query but for a slip in a word
    near: bool = False  # or but for a letter in short words: as like by its letters, and no slip
    name: str | None = None  # the term, folded, of those that come first
    hit: bool = False  # whether the stage that gave it is certain: it needs no score
    settled: bool = False  # whether a stage kept the query from being encoded
    support: int = 1  # terms of the concept that were found, of the first rows
    # What speaks for it, of the first candidates.
    features: npt.NDArray[np.float32] | None = field(default=None, compare=False)


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
        scores: Reals = np.where(by_meaning, cosine, np.round(fused, _DIGITS))
        return scores


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the stages have in common for a batch of queries."""

    top: int
    stages: Collection[str]
    fusion: Fusion
    allowed: Allowed | None = None

    @property
    def rows(self) -> int:
        """Rows that a stage looks at for each query."""
        return max(ROWS, 4 * self.top)

    @property
    def mask(self) -> Mask | None:
        """The rows that may be answered with; None: all."""
        return None if self.allowed is None or self.allowed.rows.all() else self.allowed.rows


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of queries, and what may be answered with."""

    texts: Sequence[str]
    words: list[list[str]]
    right_words: list[list[bool]]  # which of them can have no slip
    known: Flags  # whether all are words, of a term or of a language
    unsettled: Flags  # which queries the stages to come are still asked
    row_terms: RowTerms
    hidden: Hidden
    custom: Mask  # which custom terms may be answered with
    search: Search
    letters: Sequence[str]  # names of the stages that compare letters
    meaning: Sequence[str]  # names of the stages that compare vectors

    def spelt(self, query: int, words: Sequence[str]) -> bool:
        """Whether a query is these words but for a slip in a word that is none as it is.

        Without the stage, none is looked for.
        """
        return SLIP in self.search.stages and as_spelt(
            self.words[query], self.right_words[query], words
        )

    def near(self, query: int, words: Sequence[str]) -> bool:
        """Whether a query is these words but for a letter, in short words too."""
        right = self.right_words[query]
        return as_spelt(self.words[query], right, words, least=NEAR_LETTERS)

    @property
    def wanted(self) -> int:
        """Concepts to find for each query."""
        return max(self.search.top, _LEAST)


def chunks(
    queries: Sequence[str], embed: Embed | None, search: Search, without: Hidden | None
) -> Iterator[tuple[Sequence[str], Embed | None, Search, Hidden | None]]:
    """What is asked, as many queries at a time as have room in memory."""
    size = max(_PAIRS // search.rows, 1)
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
    return lambda positions: embed([start + position for position in positions])


class Pairs(NamedTuple):
    """Pairs of a query and a row: by query, of each the best first."""

    query: Ints
    row: Ints
    value: Reals  # how near, or how similar

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def joined(cls, queries: Ints, matches: Sequence[tuple[Any, Any]]) -> Self:
        """Of rows and values for each of some queries."""
        if not len(queries):
            return cls.none()
        counts = [len(rows) for rows, _ in matches]
        rows, values = (np.concatenate(arrays) for arrays in zip(*matches, strict=True))
        return cls(np.repeat(queries, counts), rows, values.astype(np.float64))

    @property
    def places(self) -> Ints:
        """Of each the place among those of its query."""
        places: Ints = np.arange(len(self.query)) - np.searchsorted(self.query, self.query)
        return places

    def of(self, chosen: Flags) -> Pairs:
        return Pairs(self.query[chosen], self.row[chosen], self.value[chosen])

    def keys(self, rows: int) -> Ints:
        """A number for each pair."""
        keys: Ints = self.query * rows + self.row
        return keys


def united(matches: Sequence[Pairs]) -> tuple[Pairs, Ints]:
    """Pairs that several stages gave, each once with its best value, and which stage gave it."""
    if len(matches) < 2:
        pairs = matches[0] if matches else Pairs.none()
        return pairs, np.zeros(len(pairs.row), np.int64)
    stage = np.repeat(np.arange(len(matches)), [len(pairs.row) for pairs in matches])
    query, row, value = (np.concatenate(columns) for columns in zip(*matches, strict=True))
    order = np.lexsort((stage, -value, row, query))
    new = np.diff(query[order], prepend=-1) | np.diff(row[order], prepend=-1)
    order = order[new != 0]
    order = order[np.lexsort((row[order], -value[order], query[order]))]
    return Pairs(query[order], row[order], value[order]), stage[order]


def enough(look: Callable[[Ints, int], Pairs], queries: Ints, batch: Batch) -> Pairs:
    """The rows of each query, more until they are of enough concepts: a concept may have hundreds.

    look: finds as many rows for some queries
    """
    size = batch.search.rows
    parts = [Pairs.none()]
    while len(queries):
        pairs = look(queries, size)
        count = int(queries[-1]) + 1
        few = batch.row_terms.concepts(pairs.query, pairs.row, count) < batch.wanted
        again = few & (np.bincount(pairs.query, minlength=count) >= size)
        parts.append(pairs.of(~again[pairs.query]))
        queries, size = np.flatnonzero(again), size * _MORE
    query = np.concatenate([part.query for part in parts])
    order = np.argsort(query, kind="stable")
    row = np.concatenate([part.row for part in parts])
    value = np.concatenate([part.value for part in parts])
    return Pairs(query[order], row[order], value[order])


class Scored(NamedTuple):
    """Terms of queries with their scores."""

    query: Ints
    concept: Ints
    term: Ints
    stage: Ints  # its position among the stages that compare letters, then those of meaning
    cosine: Reals  # or nan
    similarity: Reals  # or nan
    score: Reals
    spelt: Flags
    near: Flags
    early: Flags  # of a row that is looked at whatever is asked for

    def of(self, chosen: npt.NDArray[np.intp]) -> Scored:
        columns: Iterable[Any] = (column[chosen] for column in self)
        return Scored(*columns)
