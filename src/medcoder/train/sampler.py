"""Draw triplets and terms: step t of seed s is always the same batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.errors import InputError, UsageError
from medcoder.kg import KG
from medcoder.kg.masks import named_terms
from medcoder.text import language_in
from medcoder.train.config import TrainConfig
from medcoder.train.tokens import TokenStore

_TRIES = 32  # draws with weights until those that are left come in turn

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """Slots of a step: k heads, k tails, then two for each synonym pair.

    Heads and tails come in groups of m that share a triplet: slot i of the heads belongs to group
    i // m, and tail i to head i.
    """

    concepts: Array  # (2k + 2p,) numbers of concepts
    terms: Array  # (2k + 2p,) numbers of terms, one of each slot's concept
    relations: Array  # (g,) relation of each group
    k: int

    @property
    def heads(self) -> Array:
        return self.concepts[: self.k]

    @property
    def tails(self) -> Array:
        return self.concepts[self.k : 2 * self.k]


class TripletSampler:
    """Pure `batch(seed, step)` over a graph."""

    def __init__(
        self,
        kg: KG,
        *,
        k: int,
        m: int,
        pairs: int = 0,
        languages: frozenset[str] | None = None,
        terms_per_language: int | None = None,
        relation_power: float = 1.0,
        extra: tuple[Array, Array] | None = None,
        extra_share: float = 0.0,
        extra_anchored: float = 0.0,
        pair_power: float = 0.0,
        alike: Array | None = None,
    ) -> None:
        """k triplets a step, each m times; `pairs` concepts more, each with two of its terms.

        languages: terms of these alone are drawn.
        terms_per_language: at most so many of a concept's terms in one language, its best.
        relation_power: a relation with n edges is drawn as n to this power; 1 draws edges evenly,
            0 relations evenly.
        extra: (concepts, terms) of terms beside the graph's, such as lay phrases; a term that
            comes twice is drawn twice as often.
        extra_share: up to this part of the pairs is drawn among the concepts that have such
            terms, each as often as it has.
        extra_anchored: how often a pair of a concept with such terms is one of them and one of
            the graph's.
        pair_power: a concept with n terms is drawn for a pair as n to this power; 0 draws
            concepts evenly.
        alike: (terms,) equal numbers where terms look the same to the model; of those of one
            concept only the first is drawn, so that no pair is a term with itself.
        """
        if k % m:
            raise UsageError(
                "must be a multiple of sampler.m",
                where="sampler.k",
                values=f"{k} with sampler.m = {m}",
            )
        self.kg, self.k, self.m, self.pairs = kg, k, m, pairs
        self._terms, self._first = _eligible(kg, languages, terms_per_language, extra)
        if alike is not None:
            self._terms, self._first = _once(self._terms, self._first, alike)
        counts = np.diff(self._first)
        self._has_pair = _with_two(self._terms, counts)
        self._several = np.flatnonzero(self._has_pair)  # what a synonym pair can come from
        if pairs and len(self._several) < pairs:
            raise UsageError(
                "more synonym pairs a step than concepts with two terms",
                values=f"{pairs} pairs, {len(self._several)} concepts",
                remedy="Lower sampler.pairs",
            )
        self._by_terms = _cumulative(counts[self._several], pair_power) if pairs else None
        owner = np.repeat(np.arange(len(kg)), counts)
        # A concept's terms of the graph come before its extra ones.
        self._own = np.bincount(owner[self._terms < len(kg.terms)], minlength=len(kg))
        self._anchored = extra_anchored
        extended = extra[0] if extra is not None else np.zeros(0, np.int64)
        self._extended = extended[self._has_pair[extended]]
        self._from_extended = round(extra_share * pairs) if len(self._extended) else 0
        self._edges = self._usable_edges(counts)
        if k and self.edges < k // m:
            raise InputError(
                f"the graph has {self.edges:,} relations between concepts with terms to draw, "
                f"fewer than the {k // m} of a step",
                remedy="Add relations or languages, or lower sampler.k",
            )
        self._by_relation = _weigh(kg, self._edges, relation_power) if k else None
        self.hard: Array | None = None  # (concepts, h) near concepts, set from outside

    @property
    def edges(self) -> int:
        return len(self.kg.edges) if self._edges is None else len(self._edges)

    def batch(self, seed: int, step: int) -> Batch:
        rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, step]))
        groups = self.k // self.m
        triples = self.kg.triples(self._draw_edges(rng, groups))
        heads, tails = np.repeat(triples.head, self.m), np.repeat(triples.tail, self.m)
        paired = np.repeat(self._draw_pairs(rng), 2)
        concepts = np.concatenate([heads, tails, paired]).astype(np.int64)
        terms = self._draw_terms(rng, concepts)
        if len(paired):
            terms[2 * self.k :] = self._two_terms(rng, paired[::2])
        return Batch(concepts, terms, triples.relation, self.k)

    def _draw_edges(self, rng: np.random.Generator, groups: int) -> Array:
        """Numbers of distinct edges."""
        if groups == 0:
            return np.zeros(0, np.int64)
        chosen: Array = np.zeros(0, np.int64)
        while len(chosen) < groups:
            wanted = groups - len(chosen)
            if self._by_relation is None:
                more = rng.integers(0, self.edges, wanted)
            else:
                order, first, cumulative = self._by_relation
                label = np.searchsorted(cumulative, rng.random(wanted), side="right")
                size = first[label + 1] - first[label]
                more = order[first[label] + (rng.random(wanted) * size).astype(np.int64)]
            chosen = _first_of_each(np.concatenate([chosen, more]))
        return chosen if self._edges is None else self._edges[chosen]

    def _draw_pairs(self, rng: np.random.Generator) -> Array:
        """Distinct concepts with two terms; with hard negatives, half of them near the others."""
        if self.pairs == 0:
            return np.zeros(0, np.int64)
        first = self._several[_distinct(rng, len(self._several), self.pairs, self._by_terms)]
        if self._from_extended:
            index = rng.integers(0, len(self._extended), self._from_extended)
            first = _first_of_each(np.concatenate([self._extended[index], first]))[: self.pairs]
        if self.hard is None:
            return first
        anchors = first[: self.pairs // 2]
        near = self.hard[anchors, rng.integers(0, self.hard.shape[1], len(anchors))]
        near = near[self._has_pair[near]]
        both = np.concatenate([anchors, near, first[self.pairs // 2 :]])
        return _first_of_each(both)[: self.pairs]

    def _draw_terms(self, rng: np.random.Generator, concepts: Array) -> Array:
        begin = self._first[concepts]
        size = self._first[concepts + 1] - begin
        chosen: Array = self._terms[begin + (rng.random(len(concepts)) * size).astype(np.int64)]
        return chosen

    def _two_terms(self, rng: np.random.Generator, concepts: Array) -> Array:
        """Two different terms of each concept."""
        begin = self._first[concepts]
        size = self._first[concepts + 1] - begin
        offset = (rng.random(len(concepts)) * size).astype(np.int64)
        both = np.stack([begin + offset, begin + offset], 1)
        same = np.arange(len(concepts))
        while len(same):  # a term that counts several times has several places
            step = 1 + (rng.random(len(same)) * (size[same] - 1)).astype(np.int64)
            both[same, 1] = begin[same] + (offset[same] + step) % size[same]
            same = same[self._terms[both[same, 0]] == self._terms[both[same, 1]]]
        if self._anchored:
            own = self._own[concepts]
            wanted = (rng.random(len(concepts)) < self._anchored) & (own > 0) & (own < size)
            of_graph, beside = rng.random((2, len(concepts)))
            anchored = np.stack([of_graph * own, own + beside * (size - own)], 1).astype(np.int64)
            both[wanted] = begin[wanted, None] + anchored[wanted]
        chosen: Array = self._terms[both.ravel()]
        return chosen

    def _usable_edges(self, counts: Array) -> Array | None:
        """Edges whose two ends have terms to draw; None if those are all."""
        if (counts > 0).all():
            return None
        kept = []
        for start in range(0, len(self.kg.edges), 1 << 22):
            triples = self.kg.triples(slice(start, start + (1 << 22)))
            good = (counts[triples.head] > 0) & (counts[triples.tail] > 0)
            kept.append(start + np.flatnonzero(good))
        return np.concatenate(kept) if kept else np.zeros(0, np.int64)


def _eligible(
    kg: KG,
    languages: frozenset[str] | None,
    terms_per_language: int | None,
    extra: tuple[Array, Array] | None,
) -> tuple[Array, Array]:
    """Terms that may be drawn, grouped by concept, and where each concept's begin."""
    concept = np.repeat(np.arange(len(kg)), np.diff(kg.terms.first))
    language = kg.terms.info[:, 0]
    good = named_terms(kg)
    if languages is not None:
        wanted = [language_in(tag, languages) for tag in kg.languages]
        good &= np.array(wanted, bool)[language]
    terms = np.flatnonzero(good)
    if terms_per_language is not None:
        # A concept's terms are ordered by language, then rank: count within each stretch.
        key = concept[terms] * len(kg.languages) + language[terms]
        begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        within = np.arange(len(terms)) - np.repeat(begins, np.diff(begins, append=len(terms)))
        terms = terms[within < terms_per_language]
    owner = concept[terms]
    if extra is not None:
        owner, terms = np.concatenate([owner, extra[0]]), np.concatenate([terms, extra[1]])
        order = np.argsort(owner, kind="stable")
        owner, terms = owner[order], terms[order]
    first = np.zeros(len(kg) + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=len(kg)), out=first[1:])
    return terms, first


def _once(terms: Array, first: Array, alike: Array) -> tuple[Array, Array]:
    """The same without terms that look like an earlier one of their concept."""
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    order = np.lexsort((alike[terms], owner))  # stable: the first of those alike stays first
    keys = owner[order], alike[terms[order]]
    begins = np.ones(len(order), bool)
    begins[1:] = np.logical_or(*(key[1:] != key[:-1] for key in keys))
    leader = terms[order][begins][np.cumsum(begins) - 1]
    kept = np.zeros(len(terms), bool)
    kept[order] = terms[order] == leader  # a term that counts several times stays several times
    bounds = np.zeros(len(first), np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=len(first) - 1), out=bounds[1:])
    return terms[kept], bounds


def _first_of_each(numbers: Array) -> Array:
    """Distinct numbers, in the order in which they first come."""
    _, index = np.unique(numbers, return_index=True)
    kept: Array = numbers[np.sort(index)]
    return kept


def _with_two(terms: Array, counts: Array) -> Array:
    """Whether each concept has two different terms."""
    owner = np.repeat(np.arange(len(counts)), counts)
    differ = (owner[1:] == owner[:-1]) & (terms[1:] != terms[:-1])
    kept: Array = np.bincount(owner[1:][differ], minlength=len(counts)) > 0
    return kept


def _weigh(kg: KG, edges: Array | None, power: float) -> tuple[Array, Array, Array] | None:
    """Edges ordered by relation, where each relation's begin, and cumulative weights."""
    if power == 1.0:
        return None
    relation = kg.triples(slice(None) if edges is None else edges).relation
    order = np.argsort(relation, kind="stable")
    counts = np.bincount(relation, minlength=len(kg.relations))
    weights = np.where(counts > 0, counts.astype(float) ** power, 0.0)
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]  # exactly 1 from the last relation with edges on
    return order, np.concatenate([[0], np.cumsum(counts)]), cumulative


def _cumulative(counts: Array, power: float) -> Array | None:
    """Cumulative weights of numbers that are drawn as their counts to a power; None: evenly."""
    if power == 0:
        return None
    cumulative: Array = np.cumsum((counts / counts.max()) ** power)
    cumulative /= cumulative[-1]
    return cumulative


def _distinct(
    rng: np.random.Generator, below: int, size: int, cumulative: Array | None = None
) -> Array:
    """Distinct numbers; drawing again mostly costs less than a permutation of all."""
    chosen: Array = np.zeros(0, np.int64)
    tries = 0
    while len(chosen) < size:
        if cumulative is None:
            more = rng.integers(0, below, size - len(chosen))
        elif tries < _TRIES:
            more = np.searchsorted(cumulative, rng.random(size - len(chosen)), side="right")
        else:  # some weigh so much that others hardly ever come
            more = _in_turn(rng, cumulative)
        chosen = _first_of_each(np.concatenate([chosen, more]))[:size]
        tries += 1
    return chosen


def _in_turn(rng: np.random.Generator, cumulative: Array) -> Array:
    """All numbers, in the order in which they would come if each came once."""
    weights = np.diff(cumulative, prepend=0.0)
    with np.errstate(divide="ignore"):
        waits = rng.exponential(size=len(weights)) / weights
    return np.argsort(waits, kind="stable")


def check_sampler_options(config: TrainConfig, processes: int, *, hard: bool, extra: bool) -> None:
    """An error if settings ask for what is not there; `hard`: hard negatives can be found."""
    options = config.sampler
    if 2 * options.k % processes or 2 * options.pairs % processes:
        raise UsageError(
            "the processes do not divide the slots of a step",
            values=f"{processes} processes, k = {options.k}, pairs = {options.pairs}",
            remedy="Change sampler.k or sampler.pairs",
        )
    if options.hard_every and not hard:
        raise UsageError(
            "needs a function `neighbours` that finds concepts near each other",
            where="sampler.hard_every",
            remedy="Set it to 0",
        )
    for name in ("extra_share", "extra_anchored"):
        if getattr(options, name) and not extra:
            raise UsageError(
                "there are no extra terms to draw",
                where=f"sampler.{name}",
                values=getattr(options, name),
                remedy="Name their table with --extra, or leave it out",
            )


def make_sampler(
    kg: KG,
    config: TrainConfig,
    extra: tuple[Array, Array] | None,
    store: TokenStore | None = None,
) -> TripletSampler:
    check_relations(kg, config)
    options = config.sampler
    return TripletSampler(
        kg,
        k=options.k if len(kg.edges) else 0,
        m=options.m,
        pairs=options.pairs,
        languages=frozenset(options.languages) or None,
        terms_per_language=options.terms_per_language or None,
        relation_power=options.relation_power,
        extra=extra,
        extra_share=options.extra_share,
        extra_anchored=options.extra_anchored,
        pair_power=options.pair_power,
        alike=store.alike() if store is not None else None,
    )


def check_relations(kg: KG, config: TrainConfig) -> None:
    """An error if the graph has no relations, and the settings want some."""
    if config.relation.mu > 0 and len(kg.edges) == 0:
        raise InputError(
            "has no relations, and relation.mu is not 0",
            file=kg.path,
            remedy="Train with --set relation.mu=0 and sampler.pairs, or add relations",
        )
    if config.relation.mu == 0 and len(kg.edges) == 0 and not config.sampler.pairs:
        raise UsageError(
            "has no relations",
            where=kg.path,
            remedy="Set sampler.pairs to draw synonym pairs",
        )
