"""The three stages: which concepts may be meant by a string, and how near each is to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.index import Mask, RowIndex
from medcoder.kg import KG
from medcoder.normalize.filters import Allowed
from medcoder.normalize.grams import Grams
from medcoder.normalize.overlay import Overlay
from medcoder.normalize.slips import as_spelt
from medcoder.text import fold
from medcoder.types import Stage
from medcoder.vectors import NO_ROW, Vectors

_ROWS = 32  # rows that a stage looks at for each query
_MORE = 4  # times as many when they are of too few concepts
_LEAST = 5  # concepts, whatever is asked for: confidence is about how far the best is ahead
_TEXTS = 1 << 16  # texts of rows that stay in memory

Floats = npt.NDArray[np.float32]
Rows = dict[int, float]  # how near each is, best first
Owners = Callable[[int], list[tuple[int, int]]]  # concepts and terms of a row


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
        if known or not self.gain:
            return cosine
        letters = 1.0 if spelt else similarity
        best = 1 + self.gain * (1 - self.floor)
        return round((cosine + self.gain * max(letters - self.floor, 0.0)) / best, 9)


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the stages have in common for one batch of queries."""

    top: int
    stages: Collection[Stage]
    fusion: Fusion
    allowed: Allowed | None = None


class Candidates:
    """Finds candidates for queries in a graph and its overlay."""

    def __init__(
        self, kg: KG, vectors: Vectors, index: RowIndex, grams: Grams, overlay: Overlay
    ) -> None:
        self.kg, self.vectors, self.index, self.grams = kg, vectors, index, grams
        self.overlay = overlay
        self._concept_of_first = kg.terms.first
        self._text = lru_cache(_TEXTS)(self._row_text)

    def find(
        self,
        queries: Sequence[str],
        embedded: Floats | None,
        search: Search,
        *,
        without: Sequence[Collection[int]] | None = None,
    ) -> list[list[Candidate]]:
        """Candidates of each query, best first.

        embedded: vectors (q, d) of the queries, for the dense stage
        without: numbers of terms that do not exist for a query; calibration asks so
        """
        mask = None if search.allowed is None else search.allowed.rows
        custom = self._custom(search.allowed)
        size = self._first_rows(search)
        near = self._near(embedded, size, mask) if embedded is not None else [{}] * len(queries)
        found = []
        for place, query in enumerate(queries):
            hidden = without[place] if without is not None else ()
            vector = embedded[place] if embedded is not None else None
            found.append(self._one(query, vector, near[place], search, mask, custom, hidden))
        return found

    def _near(self, embedded: Floats, size: int, mask: Mask | None) -> list[Rows]:
        scores, rows = self.index.search(embedded, size, allowed=mask)
        return [
            {row: score for row, score in zip(*pair, strict=True) if row >= 0}
            for pair in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    def _alike(self, query: str, size: int, mask: Mask | None) -> Rows:
        rows, scores = self.grams.search(query, size, allowed=mask)
        return dict(zip(rows.tolist(), scores.tolist(), strict=True))

    @staticmethod
    def _first_rows(search: Search) -> int:
        return max(_ROWS, 4 * search.top)

    def _one(
        self,
        query: str,
        vector: Floats | None,
        near: Rows,
        search: Search,
        mask: Mask | None,
        custom: Mask,
        hidden: Collection[int],
    ) -> list[Candidate]:
        owners: Owners = cache(lambda row: self._owners(row, search.allowed, hidden))
        known = self.grams.knows(query, self._hidden_texts(hidden))
        cosines = self.overlay.cosines(vector) if vector is not None else None
        alike: Rows = {}
        if vector is not None:
            near = self._enough(
                near, lambda size: self._near(vector[None], size, mask)[0], owners, search
            )
        letters = "ngram" in search.stages
        # What is spelt in known words is ranked by meaning alone: see `Fusion`.
        if letters and not (known and vector is not None):
            alike = self._enough(
                self._alike(query, self._first_rows(search), mask),
                lambda size: self._alike(query, size, mask),
                owners,
                search,
            )
        near_too, alike_too = near, alike  # and what the one stage says of the other's rows
        if vector is not None and (far := [row for row in alike if row not in near]):
            further = np.einsum("rd,d->r", self.vectors.take(np.array(far)), vector)
            near_too = near | dict(zip(far, further.tolist(), strict=True))
        if letters and not known and (unlike := [row for row in near if row not in alike]):
            similar = self.grams.similarity(query, [self._text(row) for row in unlike])
            alike_too = alike | dict(zip(unlike, similar.tolist(), strict=True))
        words = fold(query).split()
        found: list[Candidate] = []
        for row in near | alike:
            stage: Stage = "dense" if row in near else "ngram"
            cosine, similarity = near_too.get(row), alike_too.get(row)
            spelt = letters and not known and as_spelt(words, fold(self._text(row)).split())
            score = search.fusion.score(cosine, similarity, known=known, spelt=spelt)
            found += [
                Candidate(concept, term, stage, cosine, similarity, score, known, spelt)
                for concept, term in owners(row)
            ]
        found += self._of_overlay(query, cosines, search, custom, known)
        exact = self._exact(query, search, custom, hidden) if "exact" in search.stages else {}
        ranked = self._ranked(vector, cosines, found, exact, search)
        if letters:
            self._spell(query, ranked[: max(search.top, _LEAST)])
        return ranked

    def _spell(self, query: str, candidates: Sequence[Candidate]) -> None:
        """Say how similar the first candidates are, where it was not needed to rank them."""
        some = [one for one in candidates if one.similarity is None]
        similar = self.grams.similarity(query, [self._term_text(one.term) for one in some])
        for one, similarity in zip(some, similar.tolist(), strict=True):
            one.similarity = similarity

    def _term_text(self, term: int) -> str:
        if term < 0:
            return self.overlay.texts[-1 - term]
        row = int(self.vectors.term_row[term])
        return self._text(row) if row >= 0 else self.kg.terms.text(term)

    def _enough(
        self, found: Rows, more: Callable[[int], Rows], owners: Owners, search: Search
    ) -> Rows:
        """More rows, until they are of as many concepts as asked for: one may have hundreds."""
        size, wanted = self._first_rows(search), max(search.top, _LEAST)
        while len(found) >= size:
            if len({concept for row in found for concept, _ in owners(row)}) >= wanted:
                break
            size *= _MORE
            found = more(size)
        return found

    def _owners(
        self, row: int, allowed: Allowed | None, hidden: Collection[int]
    ) -> list[tuple[int, int]]:
        """Concept and term, for the terms with this row's text that may be answered with."""
        terms = self.vectors.terms_of(row)
        if allowed is not None:
            terms = terms[allowed.terms[terms]]
        concepts = np.searchsorted(self._concept_of_first, terms, side="right") - 1
        pairs = zip(concepts.tolist(), terms.tolist(), strict=True)
        return [pair for pair in pairs if pair[1] not in hidden] if hidden else list(pairs)

    def _exact(
        self, query: str, search: Search, custom: Mask, hidden: Collection[int]
    ) -> dict[int, int]:
        """Terms by concept: custom ones, then those whose preferred name it is, then others."""
        exact = {
            concept: -1 - number for concept, number in self.overlay.exact(query) if custom[number]
        }
        found = self.kg.find_terms(query)
        found.sort(key=lambda pair: pair[1] != self.kg.terms.first[pair[0]])
        for concept, term in found:
            if (search.allowed is None or search.allowed.terms[term]) and term not in hidden:
                exact.setdefault(concept, term)
        return exact

    def _custom(self, allowed: Allowed | None) -> Mask:
        """Which terms of the overlay may be answered with."""
        if allowed is None:
            return np.ones(len(self.overlay), np.bool_)
        pairs = zip(self.overlay.concepts, self.overlay.languages, strict=True)
        return np.array([allowed.custom(*pair) for pair in pairs], np.bool_)

    def _of_overlay(
        self, query: str, cosines: Floats | None, search: Search, custom: Mask, known: bool
    ) -> Iterator[Candidate]:
        overlay, letters = self.overlay, "ngram" in search.stages
        near = overlay.near(cosines, custom) if cosines is not None else []
        alike = overlay.similar(query, self.grams, custom) if letters else {}
        for number in dict.fromkeys([*near, *alike]):
            stage: Stage = "dense" if number in near else "ngram"
            cosine = float(cosines[number]) if cosines is not None else None
            similarity = alike.get(number)
            if letters and similarity is None:
                similarity = float(self.grams.similarity(query, [overlay.texts[number]])[0])
            words, others = fold(query).split(), fold(overlay.texts[number]).split()
            spelt = letters and not known and as_spelt(words, others)
            score = search.fusion.score(cosine, similarity, known=known, spelt=spelt)
            concept = overlay.concepts[number]
            yield Candidate(concept, -1 - number, stage, cosine, similarity, score, known, spelt)

    def _ranked(
        self,
        vector: Floats | None,
        cosines: Floats | None,
        found: Iterable[Candidate],
        exact: dict[int, int],
        search: Search,
    ) -> list[Candidate]:
        """Each concept once, by its best term; exact ones first."""
        best: dict[int, Candidate] = {}
        for one in found:
            other = best.get(one.concept)
            if other is None or (one.score, -one.term) > (other.score, -other.term):
                best[one.concept] = one
        first = []
        for concept, term in exact.items():
            near = self._cosine(term, vector, cosines)
            same = 1.0 if "ngram" in search.stages else None
            first.append(Candidate(concept, term, "exact", near, same, 1.0))
        rest = [one for one in best.values() if one.concept not in exact]
        rest.sort(key=lambda one: (-one.score, one.concept))
        return first + rest

    def _cosine(self, term: int, vector: Floats | None, cosines: Floats | None) -> float | None:
        if vector is None or cosines is None:
            return None
        if term < 0:
            return float(cosines[-1 - term])
        row = int(self.vectors.term_row[term])
        if row == NO_ROW:
            return None
        return float(np.einsum("rd,d->r", self.vectors.take(np.array([row])), vector)[0])

    def _hidden_texts(self, hidden: Collection[int]) -> list[str]:
        """Texts of rows that have no term left."""
        rows = {int(self.vectors.term_row[term]) for term in hidden} - {NO_ROW}
        return [
            self._text(row)
            for row in sorted(rows)
            if all(term in hidden for term in self.vectors.terms_of(row).tolist())
        ]

    def _row_text(self, row: int) -> str:
        return self.kg.terms.text(int(self.vectors.terms_of(row)[0]))
