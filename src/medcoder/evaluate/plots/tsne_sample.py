"""Which terms and concepts of a graph are drawn. The same graph and seed give the same ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.masks import named_terms
from medcoder.text import fold
from medcoder.types import CONCEPT_FLAGS

_MOST_TERMS = 12  # of a concept, so that none fills the picture


class Sample(NamedTuple):
    """Items, a label for each, and which labels are shown in colour."""

    texts: list[str]
    ids: list[str]  # of the concept, joined by "|"
    labels: npt.NDArray[np.int64]
    names: list[str]  # of the labels
    shown: list[int]  # labels, in the order of the legend


def sample_terms(
    kg: KG, *, vocabulary: str, concepts: int, least: int, shown: int, seed: int
) -> Sample:
    """Terms of concepts that have at least `least` different ones in the vocabulary."""
    number, named = _vocabulary(kg, vocabulary), named_terms(kg)
    texts: list[str] = []
    ids: list[str] = []
    labels: list[int] = []
    chosen: list[int] = []
    many = np.flatnonzero(np.diff(kg.terms.first) >= least)
    for concept in np.random.default_rng(seed).permutation(many).tolist():
        if len(chosen) == concepts:
            break
        own: dict[str, str] = {}  # one spelling of each
        first = int(kg.terms.first[concept])
        for term, (text, _, _, source, _) in enumerate(kg.terms.of(concept), first):
            if source == number and named[term]:
                own.setdefault(fold(text), text)
        if len(own) < least:
            continue
        some = list(own.values())[:_MOST_TERMS]
        texts += some
        ids += [_joined(kg, concept)] * len(some)
        labels += [len(chosen)] * len(some)
        chosen.append(concept)
    if len(chosen) < 2:
        raise UsageError(
            f"{kg.path} has {len(chosen)} concepts with at least {least} terms of {vocabulary}, "
            "and a picture needs two. Ask for fewer terms, or for another vocabulary"
        )
    sizes = np.bincount(labels)
    return Sample(
        texts=texts,
        ids=ids,
        labels=np.array(labels),
        names=[kg.terms.preferred(concept) for concept in chosen],
        shown=_spread(kg, chosen, sizes)[:shown],
    )


def sample_concepts(
    kg: KG, *, vocabulary: str, types: Sequence[str] | None, each: int, most: int, seed: int
) -> Sample:
    """Preferred names of concepts that have one semantic type, `each` of a type.

    types: ids or names; by default the `most` that have the most concepts
    """
    number = _vocabulary(kg, vocabulary)
    source = kg.terms.info[kg.terms.first[:-1], 1]  # of the preferred name
    extension = 1 << CONCEPT_FLAGS.index("extension")
    usable = (source == number) & (np.diff(kg.first_type) == 1) & ((kg.flags & extension) == 0)
    concepts = np.flatnonzero(usable)
    kinds = kg.type_numbers[kg.first_type[concepts]]
    counts = np.bincount(kinds, minlength=len(kg.types))
    if types is None:
        common = np.argsort(-counts, kind="stable")[:most]
        wanted = [int(kind) for kind in common if counts[kind] > 1]
    else:
        wanted = [_type(kg, name) for name in types]
    if len(wanted) < 2:
        raise UsageError(
            f"{kg.path} has {len(wanted)} semantic types with concepts of {vocabulary}, and a "
            "picture needs two. Name another vocabulary or graph"
        )
    rng = np.random.default_rng(seed)
    chosen: list[int] = []
    labels: list[int] = []
    for label, kind in enumerate(wanted):
        of_kind = concepts[kinds == kind]
        some = np.sort(rng.permutation(of_kind)[:each]).tolist()
        chosen += some
        labels += [label] * len(some)
    return Sample(
        texts=[kg.terms.preferred(concept) for concept in chosen],
        ids=[_joined(kg, concept) for concept in chosen],
        labels=np.array(labels),
        names=[kg.types[kind].name for kind in wanted],
        shown=list(range(len(wanted))),
    )


def _vocabulary(kg: KG, name: str) -> int:
    names = [vocabulary.name for vocabulary in kg.vocabularies]
    if name not in names:
        used: Collection[str] = kg.stats()["vocabularies"]
        raise UsageError(
            f"{kg.path} has no terms of {name!r}. There are: {', '.join(used) or 'none'}"
        )
    return names.index(name)


def _type(kg: KG, wanted: str) -> int:
    for number, kind in enumerate(kg.types):
        if wanted in (kind.id, kind.name):
            return number
    raise UsageError(
        f"{kg.path} has no semantic type {wanted!r}. Look them up with: medcoder kg stats"
    )


def _joined(kg: KG, concept: int) -> str:
    """All ids by which an embedding may know the concept."""
    own = kg.terms.id(concept)
    codes = (code for _, code, *_ in kg.terms.of(concept) if code)
    return "|".join(dict.fromkeys([own, *codes]))


def _spread(kg: KG, concepts: Sequence[int], sizes: npt.NDArray[Any]) -> list[int]:
    """Places of the concepts with the most terms, of one semantic type after the other."""
    by_type: dict[tuple[int, ...], list[int]] = {}
    for position in np.argsort(-sizes, kind="stable").tolist():
        start, stop = kg.first_type[concepts[position]], kg.first_type[concepts[position] + 1]
        by_type.setdefault(tuple(kg.type_numbers[start:stop].tolist()), []).append(position)
    rounds = zip_longest(*by_type.values())
    return [position for some in rounds for position in some if position is not None]
