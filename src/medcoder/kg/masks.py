"""Which concepts and terms of a graph a restriction keeps, as masks over their numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.errors import UnknownName, UsageError
from medcoder.kg import KG
from medcoder.kg.keys import vocabulary_key
from medcoder.text import fold, language_in, language_tag
from medcoder.types import ADDED_KINDS, CONCEPT_FLAGS

Mask = npt.NDArray[np.bool_]

# Which concepts answers may be: all, those that have none below them, codes of ICD-10-CM that a
# bill may bear, standard concepts of OMOP.
TARGETS = ("any", "leaf", "billable", "standard")
# Labels of relations, or parts of them between bars, from a concept to its parent, and back.
_IS_A = frozenset({"is_a", "isa", "chd"})
_HAS_A = frozenset({"inverse_isa", "par", "subsumes"})
_EDGES = 1 << 20  # edges at a time


def concepts_of_types(kg: KG, types: Collection[str]) -> Mask:
    """Concepts of any of these semantic types, each named by its id or its name."""
    named = [(entry.id, entry.name) for entry in kg.types]
    wanted = _numbers("semantic type", types, named, fold)
    return _any(kg.type_numbers, kg.first_type, wanted)


def concepts_of_vocabularies(kg: KG, vocabularies: Collection[str]) -> Mask:
    """Concepts that have a code in any of these vocabularies.

    A cross-reference counts where the graph has no term of its vocabulary: it is all there is.
    """
    named = [(entry.name,) for entry in kg.vocabularies]
    kept = np.zeros(len(kg), np.bool_)
    for name in vocabularies:
        wanted = _numbers("vocabulary", [name], named, vocabulary_key)
        terms = _any(kg.terms.info[:, 1], kg.terms.first, wanted)
        for kind in ("alt",) if terms.any() else ("alt", "xref"):
            kept |= _any(_xref_vocabularies(kg, kind), kg.first_xref, wanted)
        kept |= terms
    return kept


def concepts_of_targets(kg: KG, target: str) -> Mask:
    """Concepts that a code may be taken of: see `TARGETS`.

    A leaf has no concept below it but extensions. Of extensions only those are leaves that may be
    billed: the others say no more than their parent.
    """
    if target not in TARGETS:
        raise UnknownName(
            "there is no such target",
            values=repr(target),
            remedy=f"There are: {', '.join(TARGETS)}",
        )
    if target == "any":
        return np.ones(len(kg), np.bool_)
    if target == "leaf":
        return _leaves(kg)
    kept = with_flag(kg, target)
    if not kept.any():
        raise UsageError(
            f"this graph does not say which concepts are {target}",
            where=kg.path,
            remedy="Ask for others, or build it from a source that says so",
        )
    return kept


def headings(kg: KG) -> Mask:
    """Chapters, blocks and roots."""
    return with_flag(kg, "heading")


def with_flag(kg: KG, flag: str) -> Mask:
    """Concepts that bear one of CONCEPT_FLAGS."""
    kept: Mask = kg.flags >> CONCEPT_FLAGS.index(flag) & 1 != 0
    return kept


def terms_in_languages(kg: KG, languages: Collection[str]) -> Mask:
    """Terms in any of these languages, or in a variety of one."""
    tags = set(map(language_tag, languages))
    wanted = [number for number, tag in enumerate(kg.languages) if language_in(tag, tags)]
    for tag in tags:
        if not any(language_in(known, {tag}) for known in kg.languages):
            raise _unknown("language", tag, kg.languages)
    kept: Mask = np.isin(kg.terms.info[:, 0], wanted)
    return kept


def named_terms(kg: KG) -> Mask:
    """Terms that a source gave as names: to learn from, and to measure with."""
    added = [number for number, kind in enumerate(kg.kinds) if kind in ADDED_KINDS]
    kept: Mask = ~np.isin(kg.terms.info[:, 2], added)
    return kept


def terms_of_concepts(kg: KG, concepts: Mask) -> Mask:
    """All terms of the concepts."""
    kept: Mask = np.repeat(concepts, np.diff(kg.terms.first))
    return kept


def _leaves(kg: KG) -> Mask:
    extension = with_flag(kg, "extension")
    kept = ~extension | with_flag(kg, "billable")
    up, down = (
        [n for n, label in enumerate(kg.relations) if names & set(_plain(label).split("|"))]
        for names in (_IS_A, _HAS_A)
    )
    for start in range(0, len(kg.edges) if up or down else 0, _EDGES):
        heads, relations, tails = kg.triples(slice(start, start + _EDGES))
        for wanted, child, parent in ((up, heads, tails), (down, tails, heads)):
            kept[parent[np.isin(relations, wanted) & ~extension[child]]] = False
    return kept


def _plain(label: str) -> str:
    return label.casefold().replace(" ", "_")


def _xref_vocabularies(kg: KG, kind: str) -> npt.NDArray[np.int64]:
    """Of each cross-reference the vocabulary if it is of this kind, or -1.

    "alt" are other codes of the very concept, "xref" those that are said to match it.
    """
    number = kg.kinds.index(kind) if kind in kg.kinds else -1
    return np.where(kg.xref_info[:, 1] == number, kg.xref_info[:, 0].astype(np.int64), -1)


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
