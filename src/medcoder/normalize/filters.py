"""Restrictions on answers: masks over the rows and terms of an index, and the terms they leave."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.masks import (
    Mask,
    concepts_of_targets,
    concepts_of_types,
    concepts_of_vocabularies,
    headings,
    terms_in_languages,
    terms_of_concepts,
)
from medcoder.text import language_in, language_tag
from medcoder.vectors import Vectors

Ints = npt.NDArray[np.int64]

ANY = "any"  # of TARGETS: it leaves them open
_KEPT = 4  # filters whose masks stay in memory


class Filter(NamedTuple):
    """What an answer must be: None leaves it open."""

    types: frozenset[str] | None = None  # of any of these semantic types
    vocabularies: frozenset[str] | None = None  # with a code in any of these vocabularies
    languages: frozenset[str] | None = None  # matched by a term in any of these languages
    targets: str = ANY  # or only such concepts: leaf, billable, standard

    @classmethod
    def of(
        cls,
        types: Collection[str] | str | None,
        vocabularies: Collection[str] | str | None,
        languages: Collection[str] | str | None,
        targets: str = ANY,
    ) -> Filter:
        return cls(
            _names("types", types),
            _names("vocabularies", vocabularies),
            _names("languages", languages),
            targets,
        )

    @property
    def open(self) -> bool:
        return self == Filter()


class Allowed(NamedTuple):
    """What a filter keeps."""

    concepts: Mask  # (concepts,)
    terms: Mask  # (terms,)
    rows: Mask  # (rows,)
    languages: frozenset[str] | None = None  # tags, for terms that are not in the graph

    def custom(self, concept: int, language: str) -> bool:
        """Whether a custom term may be answered with; without a language, it is of all."""
        spoken = self.languages is None or not language or language_in(language, self.languages)
        return spoken and bool(self.concepts[concept])


class Filters:
    """Masks by filter; the last few are kept, so that a column of strings pays once."""

    def __init__(self, kg: KG, vectors: Vectors) -> None:
        self._kg, self._vectors = kg, vectors
        self._masks: OrderedDict[Filter, Allowed] = OrderedDict()
        self._answers = ~headings(kg)
        self._all = bool(self._answers.all())

    def allowed(self, wanted: Filter) -> Allowed | None:
        """The masks of a filter, without headings; None if they keep everything."""
        if wanted.open and self._all:
            return None
        if wanted not in self._masks:
            self._masks[wanted] = self._made(wanted)
            while len(self._masks) > _KEPT:
                self._masks.popitem(last=False)
        self._masks.move_to_end(wanted)
        return self._masks[wanted]

    def _made(self, wanted: Filter) -> Allowed:
        kg = self._kg
        concepts = self._answers.copy()
        if wanted.targets != ANY:
            concepts &= concepts_of_targets(kg, wanted.targets)
        if wanted.types is not None:
            concepts &= concepts_of_types(kg, wanted.types)
        if wanted.vocabularies is not None:
            concepts &= concepts_of_vocabularies(kg, wanted.vocabularies)
        terms = terms_of_concepts(kg, concepts)
        if wanted.languages is not None:
            terms &= terms_in_languages(kg, wanted.languages)
        rows = np.zeros(len(self._vectors), np.bool_)
        of_terms = self._vectors.term_row[terms]
        rows[of_terms[of_terms >= 0]] = True
        tags = None if wanted.languages is None else frozenset(map(language_tag, wanted.languages))
        return Allowed(concepts, terms, rows, tags)


class Owned(NamedTuple):
    """Terms that may be answered with."""

    pair: Ints  # the position of the pair that each belongs to
    concept: Ints
    term: Ints


class RowTerms:
    """The terms and concepts of rows, for pairs of a query and a row.

    Leaves out what a filter does not allow, and what is hidden from a query.
    """

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
                query * self._terms + term
                for query, terms in enumerate(without or ())
                for term in terms
            ],
            np.int64,
        )

    def of(self, query: Ints, row: Ints) -> Owned:
        """The terms of each row, and their concepts."""
        pair, term = self._vectors.owners(row)
        keep = np.ones(len(pair), np.bool_)
        if self._allowed is not None:
            keep &= self._allowed.terms[term]
        if len(self._hidden):
            keep &= ~np.isin(query[pair] * self._terms + term, self._hidden)
        pair, kept = pair[keep], term[keep].astype(np.int64)
        return Owned(pair, np.searchsorted(self._first, kept, side="right") - 1, kept)

    def concepts(self, query: Ints, row: Ints, queries: int) -> Ints:
        """How many concepts the rows of each query are of."""
        owned = self.of(query, row)
        distinct = np.unique(query[owned.pair] * self._concepts + owned.concept)
        return np.bincount(distinct // self._concepts, minlength=queries)

    def seen(self, query: Ints, row: Ints) -> npt.NDArray[np.bool_]:
        """Which pairs have a term that may be answered with."""
        seen = np.zeros(len(row), np.bool_)
        seen[self.of(query, row).pair] = True
        return seen


def _names(noun: str, names: Collection[str] | str | None) -> frozenset[str] | None:
    if names is None:
        return None
    wanted = frozenset([names] if isinstance(names, str) else names)
    if not wanted:
        raise UsageError(f"{noun} is empty", remedy="Name at least one, or leave it out")
    return wanted
