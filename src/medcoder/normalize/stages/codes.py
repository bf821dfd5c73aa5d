"""Codes of vocabularies: I21.9, I219, HP:0001658, "ICD-10-CM I21.9".

A code behind the name of its vocabulary is taken in any spelling. Alone, it needs a digit, and:
- a number is a code only as its vocabulary spells it: 277 of ICD-9, but not 0001658 of HP;
- small letters need four characters or more: i219 is a code, p53 a protein.
A string that is also a name is both: concepts found by either are shown, and share the confidence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import ClassVar

from medcoder.kg import KG
from medcoder.kg.keys import vocabulary_key
from medcoder.normalize.batch import Batch
from medcoder.normalize.stages import Hits, Measure, Searched
from medcoder.types import Code

_DIGIT = re.compile(r"[0-9]")
_LONGEST = 64  # characters of a code with its vocabulary
_NAMED = re.compile(r"(.*[^\s:_])\s*[:_\s]\s*(\S+)")  # a vocabulary, a code
_SMALL = 4  # characters that a code in small letters has at least
_CATEGORY = 3  # characters of a category of an ICD: what is shorter is a chapter


class CodeNames:
    """What is a code of a graph."""

    def __init__(self, kg: KG) -> None:
        self._kg = kg
        names = [entry.name for entry in kg.vocabularies]
        self._vocabularies = {*map(vocabulary_key, [*names, *kg.meta["namespaces"]])}

    def of(self, query: str) -> Iterator[tuple[int, Code]]:
        """Numbers of the concepts that a string is the code of, and the code as each has it."""
        if len(query) > _LONGEST:
            return
        plain = query if query.isascii() else unicodedata.normalize("NFKC", query)
        named = _NAMED.fullmatch(plain)
        key = vocabulary_key(named[1]) if named else ""
        if named and key in self._vocabularies:
            for concept, code in self._kg.find_codes(named[2]):
                if vocabulary_key(code.vocabulary) == key:
                    yield concept, code
        elif " " not in plain and _DIGIT.search(plain):
            for concept, code in self._kg.find_codes(plain):
                if _spelt(plain, code):
                    yield concept, code


class Codes:
    """What a code means is certain: the query is settled."""

    name: ClassVar[str] = "code"
    label: ClassVar[str] = "by its code"
    justification: ClassVar[str] = "semapv:LexicalMatching"
    measure: ClassVar[Measure | None] = None
    similarity: ClassVar[float | None] = None

    def __init__(self, searched: Searched) -> None:
        self._kg, self._names = searched.kg, CodeNames(searched.kg)

    def find(self, batch: Batch) -> Hits:
        pairs = zip(batch.texts, batch.hidden, strict=True)
        terms = [self._terms(query, batch, hidden) for query, hidden in pairs]
        return Hits(terms, [position for position, some in enumerate(terms) if some])

    def _terms(self, query: str, batch: Batch, hidden: Collection[int]) -> dict[int, int]:
        terms: dict[int, int] = {}
        for concept, code in self._names.of(query):
            if concept not in terms and not _heading(code):
                term = self._term(concept, code, batch, hidden)
                if term is not None:
                    terms[concept] = term
        return terms

    def _term(self, concept: int, code: Code, batch: Batch, hidden: Collection[int]) -> int | None:
        """The first term that may be answered with, one that bears the code if there is any."""
        allowed, first = batch.search.allowed, int(self._kg.terms.first[concept])
        terms = [
            (Code(term.vocabulary, term.code) != code, first + position)
            for position, term in enumerate(self._kg.terms_of(self._kg.terms.id(concept)))
            if (allowed is None or allowed.terms[first + position])
            and first + position not in hidden
        ]
        return min(terms)[1] if terms else None


def _local(code: Code) -> str:
    """The code without the name of its vocabulary."""
    prefix, colon, local = code.code.partition(":")
    return (
        local if colon and vocabulary_key(prefix) == vocabulary_key(code.vocabulary) else code.code
    )


def _spelt(query: str, code: Code) -> bool:
    """Whether a string without a vocabulary is meant as this code."""
    if query == code.code:
        return True
    if not any(map(str.isalpha, query)):
        return False
    own = _local(code).upper()
    spellings = [own, own.replace(".", "")] if _icd(code) else [own]
    large = query == query.upper() or sum(map(str.isalnum, query)) >= _SMALL
    return large and query.upper() in spellings


def _icd(code: Code) -> bool:
    return vocabulary_key(code.vocabulary).startswith("ICD")


def _heading(code: Code) -> bool:
    """Whether it is a chapter or a block: a heading over codes, A15-A19, and none itself."""
    local = _local(code)
    return _icd(code) and ("-" in local or len(local) < _CATEGORY)
