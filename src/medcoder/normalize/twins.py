"""Twins: the same thing in two vocabularies, such as asthma in HPO and in ICD-10-CM.

Concepts are not merged: each vocabulary stays as its publisher made it. But where a string finds
several that are called so in the first place, each in a vocabulary of its own and all of a like
kind, or where one refers to the other, they are answered together, with the codes of all. That a
synonym is the same says little: "cold" is a feeling and a disease. Nor does a name in UMLS, whose
editors have merged what is the same. A code and the code below it
that share a name (J18 and J18.9, Pneumonia, unspecified organism) are one thing too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from medcoder.kg import KG
from medcoder.kg.keys import code_key, vocabulary_key

_CONDITION, ASIDE = "condition", "other"
# What is no condition, by the names of semantic types. HPO's branches and the chapters of an ICD
# are conditions but for these.
_KINDS = {
    "drug": r"drug|medica(?:tion|ment)|pharmac|chemical|substance|antibiotic|vitamin|hormone",
    "procedure": r"procedure|operation|surgery|therapeutic or preventive|regime",
    "test": r"laboratory|diagnostic|measurement|observable|test",
    "anatomy": r"anatom|body part|body structure|organ\b|tissue|cell\b|body location|body space",
    "organism": r"organism|bacteri(?:um|a)|virus|fungus|animal|plant|species|eukaryote",
    "gene": r"gene|protein|amino acid|nucleotide|enzyme",
    ASIDE: r"external causes|factors influencing health|special purposes|inheritance|modifier"
    r"|frequency|past medical|blood group|qualifier|occupation|physical object|device",
}
_PATTERNS = {kind: re.compile(rf"\b(?:{names})", re.IGNORECASE) for kind, names in _KINDS.items()}
_CONDITIONS = re.compile(r"\b(?:disease|disorder|symptom|syndrome)", re.IGNORECASE)
_MERGED = "UMLS"
_KEPT = 1 << 14
_NEIGHBOURS = 500  # of a concept that are looked at


class Twins:
    """Which concepts of a graph are the same thing."""

    def __init__(self, kg: KG) -> None:
        self._kg = kg
        self._merged = _MERGED in map(vocabulary_key, kg.meta["namespaces"])
        self._of = lru_cache(_KEPT)(self._described)

    def of(self, concepts: Sequence[int], called: Collection[int]) -> tuple[list[int], int]:
        """Of concepts of one name: the twins of the first, and how many things they all are.

        called: those that are called so in the first place
        """
        concepts = self._apart(concepts)
        if len(concepts) < 2:
            return [], len(concepts)
        described = [self._of(concept) for concept in concepts]
        if len({vocabulary for vocabulary, _ in described}) < len(concepts):
            return [], len(concepts)  # two of a vocabulary are two things
        first, kinds = concepts[0], described[0][1]
        alike = first in called and not self._merged
        twins = [
            concept
            for concept, (_, others) in zip(concepts[1:], described[1:], strict=True)
            if (alike and concept in called and kinds & others) or self.refer(first, concept)
        ]
        return twins, len(concepts) - len(twins)

    def _apart(self, concepts: Sequence[int]) -> list[int]:
        """Without those that are above or below an earlier one in its own vocabulary."""
        kept: list[int] = []
        for concept in concepts:
            vocabulary, _ = self._of(concept)
            same = [other for other in kept if self._of(other)[0] == vocabulary]
            if not any(self._related(concept, other) for other in same):
                kept.append(concept)
        return kept

    def _related(self, concept: int, other: int) -> bool:
        kg = self._kg
        ends = {kg.terms.id(concept), kg.terms.id(other)}
        edges = kg.neighbours(kg.terms.id(concept), limit=_NEIGHBOURS)
        return any({edge.head, edge.tail} == ends for edge in edges)

    def refer(self, concept: int, other: int) -> bool:
        """Whether one of two concepts refers to a code of the other."""
        return self._refers(concept, other) or self._refers(other, concept)

    def _refers(self, concept: int, other: int) -> bool:
        kg = self._kg
        codes = {code_key(*code) for code in kg.codes_of(kg.terms.id(other))}
        return any(code_key(*code) in codes for code in kg.xrefs_of(kg.terms.id(concept)))

    def _described(self, concept: int) -> tuple[int, frozenset[str]]:
        """The vocabulary of its preferred name, and what kinds of things it is of."""
        kg = self._kg
        _, _, _, vocabulary, _ = next(iter(kg.terms.of(concept)))
        start, stop = int(kg.first_type[concept]), int(kg.first_type[concept + 1])
        names = [kg.types[number].name for number in kg.type_numbers[start:stop].tolist()]
        return int(vocabulary), frozenset(map(kind_of, names)) or frozenset({_CONDITION})


def kind_of(type_name: str) -> str:
    """What sort of thing a semantic type is of.

    >>> kind_of("Diseases of the respiratory system"), kind_of("Pharmacologic Substance")
    ('condition', 'drug')
    """
    if _CONDITIONS.search(type_name):
        return _CONDITION
    found = (kind for kind, pattern in _PATTERNS.items() if pattern.search(type_name))
    return next(found, _CONDITION)
