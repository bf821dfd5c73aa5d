"""MANTRA: annotated spans to UMLS concepts, one prediction a span, by language and corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.evaluate.base import Context, Embedding, Figure, Linker, Result, Rows
from medcoder.evaluate.linking import Dictionary
from medcoder.evaluate.metrics import mean, precision_recall_f1
from medcoder.evaluate.tasks import mantra_files
from medcoder.evaluate.tasks.base import figure
from medcoder.evaluate.tasks.concepts import Linked, Linking, grouped, splits
from medcoder.evaluate.tasks.queries import (
    DICTIONARY,
    QUERIES,
    Query,
    read_dictionary,
    read_queries,
)


@dataclass(frozen=True)
class Annotations(Linking):
    """Precision = hits / predictions, recall = hits / gold ids, and their micro F1.

    A span may have several gold ids, and one concept is predicted for it. "accuracy" takes each
    gold id of a span as an annotation of its own and is the share of those that are predicted:
    what the reference code calls F1. "acc@k" takes a span as right if it has any of its ids.
    """

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = self.card.place(data)
        if (folder / QUERIES).exists():
            return super().files(data, context)
        own = [folder / DICTIONARY] if (folder / DICTIONARY).exists() else []
        return own + mantra_files.files(folder) or super().files(data, context)

    def found(self, data: Path, context: Context) -> bool:
        inside = data / (self.card.folder or self.card.name)
        return super().found(data, context) or bool(mantra_files.files(inside))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        self.files(data, context)
        return self.measure(system, *self.read(self.card.place(data)), context)

    def read(self, folder: Path) -> tuple[list[Query], Dictionary]:
        """The two tables, or the brat or XML release, whichever is there."""
        if (folder / QUERIES).exists():
            return read_queries(folder / QUERIES), read_dictionary(folder / DICTIONARY)
        queries, named = mantra_files.read(folder)
        if (folder / DICTIONARY).exists():
            return queries, read_dictionary(folder / DICTIONARY)
        return queries, mantra_files.closed_dictionary(folder, named)

    def measure(
        self,
        system: Embedding | Linker,
        queries: Sequence[Query],
        dictionary: Dictionary,
        context: Context,
    ) -> Result:
        placed = [query._replace(split=corpus_split(query)) for query in queries]
        return super().measure(system, placed, dictionary, context)

    def splits(
        self, queries: Sequence[Query], linked: Linked, context: Context
    ) -> Iterator[tuple[str, Rows]]:
        yield from splits(queries, linked, seen=context.seen is not None)
        if context.seen is not None:
            for language, rows in grouped([query.language for query in queries]):
                unseen = rows[~linked.seen[rows]]
                if len(unseen):
                    yield f"unseen/{language}", unseen

    def figures(
        self, split: str, rows: Rows, queries: Sequence[Query], linked: Linked, context: Context
    ) -> Iterator[Figure]:
        draws: dict[str, Any] = {"resamples": context.resamples, "seed": context.seed}
        gold = np.array([len(queries[row].ids) for row in rows])
        predicted = linked.ranked.rows[rows, 0] >= 0
        hits = linked.ranks[rows] == 0
        coverage = float(linked.known[rows].mean())
        estimates = precision_recall_f1(hits, predicted, gold, **draws)
        for metric, estimate in zip(("precision", "recall", "f1"), estimates, strict=True):
            yield figure(split, metric, estimate, len(rows), coverage=coverage)
        # An entry for each gold id; of a span, at most one is predicted.
        first = np.cumsum(gold) - gold
        annotations = np.zeros(int(gold.sum()))
        annotations[first[hits]] = 1
        yield figure(
            split, "accuracy", mean(annotations, **draws), len(annotations), coverage=coverage
        )
        yield from super().figures(split, rows, queries, linked, context)


def corpus_split(query: Query) -> str:
    """LANGUAGE/CORPUS, of "de_EMEA" too."""
    prefix = f"{query.language}_"
    if query.split.startswith(prefix):
        return f"{query.language}/{query.split.removeprefix(prefix)}"
    return query.split
