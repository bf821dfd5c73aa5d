"""The terms and concepts that a row of vectors belongs to, for pairs of a query and a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.kg import KG
from medcoder.normalize.filters import Allowed
from medcoder.vectors import Vectors

Ints = npt.NDArray[np.int64]


class Owned(NamedTuple):
    """Terms that may be answered with."""

    place: Ints  # of the pair that each belongs to
    concept: Ints
    term: Ints


class RowTerms:
    """Leaves out what a filter does not allow, and what is hidden from a query."""

    def __init__(
        self,
        kg: KG,
        vectors: Vectors,
        allowed: Allowed | None,
        without: Sequence[Collection[int]] | None,
    ) -> None:
        self._first, self._vectors, self._allowed = kg.terms.first, vectors, allowed
        self._concepts, self._terms = len(kg), len(kg.terms)
        self._hidden = np.array(
            [
                place * self._terms + term
                for place, terms in enumerate(without or ())
                for term in terms
            ],
            np.int64,
        )

    def of(self, query: Ints, row: Ints) -> Owned:
        """The terms of each row, and their concepts."""
        place, term = self._vectors.owners(row)
        keep = np.ones(len(place), np.bool_)
        if self._allowed is not None:
            keep &= self._allowed.terms[term]
        if len(self._hidden):
            keep &= ~np.isin(query[place] * self._terms + term, self._hidden)
        place, kept = place[keep], term[keep].astype(np.int64)
        return Owned(place, np.searchsorted(self._first, kept, side="right") - 1, kept)

    def concepts(self, query: Ints, row: Ints, queries: int) -> Ints:
        """How many concepts the rows of each query are of."""
        owned = self.of(query, row)
        distinct = np.unique(query[owned.place] * self._concepts + owned.concept)
        return np.bincount(distinct // self._concepts, minlength=queries)

    def seen(self, query: Ints, row: Ints) -> npt.NDArray[np.bool_]:
        """Which pairs have a term that may be answered with."""
        found = np.zeros(len(row), np.bool_)
        found[self.of(query, row).place] = True
        return found
