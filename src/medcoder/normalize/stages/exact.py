"""Terms that equal the query but for case, accents and punctuation."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from medcoder.normalize.batch import Batch
from medcoder.normalize.stages import Hits, Measure, Searched
from medcoder.types import ADDED_KINDS


class Exact:
    """A custom term goes before a preferred name, that before others, and added ones are last."""

    name: ClassVar[str] = "exact"
    label: ClassVar[str] = "as it is, but for case, accents and punctuation"
    justification: ClassVar[str] = "semapv:LexicalMatching"
    measure: ClassVar[Measure | None] = None
    similarity: ClassVar[float | None] = 1.0

    def __init__(self, searched: Searched) -> None:
        self._kg, self._custom_terms = searched.kg, searched.custom_terms
        kinds = self._kg.kinds
        self._added = {kinds.index(name) for name in ADDED_KINDS if name in kinds}

    def find(self, batch: Batch) -> Hits:
        """Nothing is settled: what else is near decides how sure to be of a hit."""
        pairs = zip(batch.texts, batch.hidden, strict=True)
        return Hits([self._terms(query, batch, hidden) for query, hidden in pairs])

    def _terms(self, query: str, batch: Batch, hidden: Collection[int]) -> dict[int, int]:
        allowed = batch.search.allowed
        terms = {
            concept: -1 - number
            for concept, number in self._custom_terms.exact(query)
            if batch.custom[number]
        }
        matches = self._kg.find_terms(query)
        matches.sort(key=self._rank)
        for concept, term in matches:
            if (allowed is None or allowed.terms[term]) and term not in hidden:
                terms.setdefault(concept, term)
        return terms

    def _rank(self, match: tuple[int, int]) -> int:
        concept, term = match
        if term == self._kg.terms.first[concept]:
            return 0
        return 2 if int(self._kg.terms.info[term, 2]) in self._added else 1
