"""Which concepts and terms of a graph a restriction keeps, as masks over their numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.errors import UnknownName
from medcoder.kg import KG
from medcoder.kg.keys import vocabulary_key
from medcoder.text import fold, language_in, language_tag

Mask = npt.NDArray[np.bool_]


def concepts_of_types(kg: KG, types: Collection[str]) -> Mask:
    """Concepts of any of these semantic types, each named by its id or its name."""
    named = [(entry.id, entry.name) for entry in kg.types]
    wanted = _numbers("semantic type", types, named, fold)
    return _any(kg.type_numbers, kg.first_type, wanted)


def concepts_of_vocabularies(kg: KG, vocabularies: Collection[str]) -> Mask:
    """Concepts that have a code in any of these vocabularies."""
    named = [(entry.name,) for entry in kg.vocabularies]
    wanted = _numbers("vocabulary", vocabularies, named, vocabulary_key)
    terms = _any(kg.terms.info[:, 1], kg.terms.first, wanted)
    return terms | _any(_alternative_vocabularies(kg), kg.first_xref, wanted)


def terms_in_languages(kg: KG, languages: Collection[str]) -> Mask:
    """Terms in any of these languages, or in a variety of one."""
    tags = set(map(language_tag, languages))
    wanted = [number for number, tag in enumerate(kg.languages) if language_in(tag, tags)]
    for tag in tags:
        if not any(language_in(known, {tag}) for known in kg.languages):
            raise _unknown("language", tag, kg.languages)
    kept: Mask = np.isin(kg.terms.info[:, 0], wanted)
    return kept


def terms_of_concepts(kg: KG, concepts: Mask) -> Mask:
    """All terms of the concepts."""
    kept: Mask = np.repeat(concepts, np.diff(kg.terms.first))
    return kept


def _alternative_vocabularies(kg: KG) -> npt.NDArray[np.int64]:
    """Of each cross-reference the vocabulary, if it is another code of the very concept, or -1."""
    alternative = kg.kinds.index("alt") if "alt" in kg.kinds else -1
    return np.where(kg.xref_info[:, 1] == alternative, kg.xref_info[:, 0].astype(np.int64), -1)


def _any(numbers: npt.NDArray[Any], first: npt.NDArray[np.int64], wanted: list[int]) -> Mask:
    """For each concept, whether any of its numbers is wanted."""
    counts = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(np.isin(numbers, wanted), out=counts[1:])
    kept: Mask = counts[first[1:]] > counts[first[:-1]]
    return kept


def _numbers(
    noun: str,
    names: Collection[str],
    known: Sequence[tuple[str, ...]],
    key: Callable[[str], str],
) -> list[int]:
    """Numbers of the entries that go by any of the names."""
    numbers: list[int] = []
    for name in names:
        hits = [
            number
            for number, spelt in enumerate(known)
            if key(name) in map(key, filter(None, spelt))
        ]
        if not hits:
            raise _unknown(noun, name, [entry for spelt in known for entry in spelt if entry])
        numbers += hits
    return numbers


def _unknown(noun: str, name: str, known: Iterable[str]) -> UnknownName:
    names = sorted(set(known))
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"There are: {', '.join(names[:30])}"
    return UnknownName(
        f"this graph has no such {noun}",
        values=repr(name),
        remedy=hint,
        message=f"no {noun} {name!r} in this graph: {hint}",
    )
