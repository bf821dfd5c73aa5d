"""Linking: queries to the concepts of a dictionary; accuracy among the first k."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medcoder.evaluate.base import (
    Context,
    Embedding,
    Figure,
    Linker,
    Mask,
    Prediction,
    Ranked,
    Result,
    Rows,
)
from medcoder.evaluate.linking import Dictionary, link, ranks_of_gold
from medcoder.evaluate.metrics import hits_at, mean
from medcoder.evaluate.tasks.base import Task, figure, word_figures
from medcoder.evaluate.tasks.queries import (
    DICTIONARY,
    QUERIES,
    Query,
    ids_of,
    read_dictionary,
    read_queries,
)

SHOWN = 5  # concepts that are kept of each query, for the analysis of errors


class Linked(NamedTuple):
    """What linking gave."""

    ranked: Ranked
    ranks: Rows  # of the first right concept, from 0; -1: not among those kept
    known: Mask
    seen: Mask


@dataclass(frozen=True)
class Linking(Task):
    """acc@k: the share of queries with a right concept among the first k distinct ones.

    A hit is any id in common. Where the set has folds, the unweighted mean of the folds. Queries
    that a named training graph does not hold verbatim are given apart, as "unseen"; so are the
    languages and the parts of the set, where it has several.
    """

    ks: tuple[int, ...] = (1, 3)

    def accepts(self, system: Embedding | Linker) -> bool:
        return system.kind != "concept"  # a query has no id

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        folder = self.card.check(data, pinned=context.pinned)
        return self.measure(
            system, read_queries(folder / QUERIES), read_dictionary(folder / DICTIONARY), context
        )

    def measure(
        self,
        system: Embedding | Linker,
        queries: Sequence[Query],
        dictionary: Dictionary,
        context: Context,
    ) -> Result:
        linked = link_all(system, queries, dictionary, max(SHOWN, *self.ks), context)
        figures = [
            found
            for split, rows in self.splits(queries, linked, context)
            for found in self.figures(split, rows, queries, linked, context)
        ]
        figures += word_figures(system, [query.text for query in queries], context)
        return Result(figures, list(predictions(queries, dictionary, linked)))

    def splits(
        self, queries: Sequence[Query], linked: Linked, context: Context
    ) -> Iterator[tuple[str, Rows]]:
        return splits(queries, linked, seen=context.seen is not None)

    def figures(
        self, split: str, rows: Rows, queries: Sequence[Query], linked: Linked, context: Context
    ) -> Iterator[Figure]:
        folds = np.array([queries[row].fold for row in rows])
        for k in self.ks:
            estimate = mean(
                hits_at(linked.ranks[rows], k),
                groups=folds,
                resamples=context.resamples,
                seed=context.seed,
            )
            coverage = float(linked.known[rows].mean())
            yield figure(split, f"acc@{k}", estimate, len(rows), coverage=coverage)


def link_all(
    system: Embedding | Linker,
    queries: Sequence[Query],
    dictionary: Dictionary,
    k: int,
    context: Context,
) -> Linked:
    """Rank the dictionary for all queries, and see where the right concepts are."""
    texts = [query.text for query in queries]
    ranked, known = link(system, texts, dictionary, k, progress=context.progress)
    ranks = ranks_of_gold(ranked, dictionary.concepts, [query.ids for query in queries])
    is_seen = context.seen or (lambda text: False)
    seen = np.fromiter((is_seen(text) for text in texts), dtype=bool, count=len(texts))
    return Linked(ranked, ranks, known, seen)


def splits(queries: Sequence[Query], linked: Linked, *, seen: bool) -> Iterator[tuple[str, Rows]]:
    """Parts of the queries that get figures of their own, and all of them."""
    everything = np.arange(len(queries))
    yield "all", everything
    if seen and not linked.seen.all():
        yield "unseen", everything[~linked.seen]
    for parts in (
        [query.language for query in queries],
        ["" if query.fold else query.split for query in queries],
    ):
        if len(set(parts)) > 1:
            yield from grouped(parts)


def grouped(names: Sequence[str]) -> Iterator[tuple[str, Rows]]:
    """Rows by name, in the order of the names; those without one are in none."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(names):
        if name:
            rows[name].append(row)
    for name in sorted(rows):
        yield name, np.array(rows[name])


def predictions(
    queries: Sequence[Query], dictionary: Dictionary, linked: Linked
) -> Iterator[Prediction]:
    """What each query got, with names that a reader understands."""
    names: dict[str, str] = {}  # of an id: the first term of its concept
    for concept, term in zip(dictionary.concepts, dictionary.terms, strict=True):
        for one in ids_of(concept):
            names.setdefault(one, term)
    for number, query in enumerate(queries):
        rows = [row for row in linked.ranked.rows[number, :SHOWN].tolist() if row >= 0]
        yield Prediction(
            query=query.text,
            language=query.language,
            split=query.split,
            gold=query.gold,
            gold_names="; ".join(dict.fromkeys(names[i] for i in sorted(query.ids) if i in names)),
            concepts=tuple(dictionary.concepts[row] for row in rows),
            names=tuple(dictionary.terms[row] for row in rows),
            scores=tuple(
                round(score, 6) for score in linked.ranked.scores[number, : len(rows)].tolist()
            ),
            seen=bool(linked.seen[number]),
        )
