"""Linking: queries to the concepts of a dictionary; accuracy among the first k."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medcoder.errors import InputError, UsageError
from medcoder.evaluate.benches.task import (
    Card,
    Metric,
    Needed,
    Task,
    figure,
    word_figures,
)
from medcoder.evaluate.metrics import hits_at, mean
from medcoder.evaluate.ranking import Dictionary, link, ranks_of_gold
from medcoder.evaluate.results import (
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
from medcoder.tables.text import read_columns

QUERIES, DICTIONARY = "queries.tsv", "dictionary.tsv"
QUERY_COLUMNS = ("query", "gold_concept_ids")
DICTIONARY_COLUMNS = ("concept_id", "term")
_FOLD = re.compile(r"(fold\w*?)_test")


class Query(NamedTuple):
    """A string to link, and what is right."""

    text: str
    language: str
    gold: str  # ids joined by "|"
    split: str

    @property
    def ids(self) -> frozenset[str]:
        return ids_of(self.gold)

    @property
    def fold(self) -> str:
        """Of "fold3_test" the fold; "" where the set has none."""
        match = _FOLD.fullmatch(self.split)
        return match[1] if match else ""


def ids_of(joined: str) -> frozenset[str]:
    """The ids of a concept or of a gold answer.

    >>> sorted(ids_of("D003920|222100"))
    ['222100', 'D003920']
    """
    return frozenset(part.strip() for part in joined.split("|") if part.strip())


def two_tables(
    *,
    queries: tuple[int | None, str | None] = (None, None),
    dictionary: tuple[int | None, str | None] = (None, None),
) -> tuple[Needed, Needed]:
    """The files of a linking bench, with their rows and sha256 where they are pinned."""
    return (
        Needed(path=QUERIES, columns=QUERY_COLUMNS, rows=queries[0], sha256=queries[1]),
        Needed(
            path=DICTIONARY, columns=DICTIONARY_COLUMNS, rows=dictionary[0], sha256=dictionary[1]
        ),
    )


def read_queries(file: Path) -> list[Query]:
    """Those that are tested: of folds "foldN_test", of splits "test", and else all."""
    rows = read_columns(file, QUERY_COLUMNS, optional=("lang", "split"))
    queries = [Query(text, language, gold, split) for text, gold, language, split in rows]
    for number, query in enumerate(queries, 2):
        if not query.ids:
            raise InputError(
                f"the query {query.text!r} has no gold id",
                file=file,
                row=number,
                remedy="Fill in the column gold_concept_ids, or leave the row out",
            )
    tested = [query for query in queries if query.fold]
    tested = tested or [query for query in queries if query.split == "test"] or queries
    if not tested:
        raise InputError("it has no queries", file=file, remedy="Add a row for each query")
    return tested


def read_dictionary(file: Path) -> Dictionary:
    rows = read_columns(file, DICTIONARY_COLUMNS)
    return checked_dictionary(rows, file)


def checked_dictionary(rows: Iterable[tuple[str, ...]], file: Path) -> Dictionary:
    """Terms with their concepts, at least one."""
    pairs = list(rows)
    if not pairs:
        raise InputError("it has no terms", file=file, remedy="Add a row for each term")
    return Dictionary([concept for concept, _ in pairs], [term for _, term in pairs])


ACCURACIES = (Metric("acc@1"), Metric("acc@3"))
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
            measured
            for split, rows in self.splits(queries, linked, context)
            for measured in self.figures(split, rows, queries, linked, context)
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
        for identifier in ids_of(concept):
            names.setdefault(identifier, term)
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


@dataclass(frozen=True)
class Custom(Linking):
    """The options `queries` and `dictionary` name the two files; or they lie in `custom/`."""

    def tables(self, data: Path, context: Context) -> tuple[Path, Path]:
        named = [context.options.get(name) for name in ("queries", "dictionary")]
        if None not in named:
            queries, dictionary = (Path(str(name)) for name in named)
            return queries, dictionary
        if any(named):
            raise UsageError("queries and a dictionary go together: name both files, or none")
        folder = self.card.check(data)
        queries, dictionary = (folder / needed.path for needed in self.card.files)
        return queries, dictionary

    def files(self, data: Path, context: Context) -> list[Path]:
        queries, dictionary = self.tables(data, context)
        read_queries(queries)
        read_dictionary(dictionary)
        return [queries, dictionary]

    def has_data(self, data: Path, context: Context) -> bool:
        return self.named(context) or self.card.has_data(data)

    def named(self, context: Context) -> bool:
        return bool(context.options.get("queries"))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        queries, dictionary = self.tables(data, context)
        return self.measure(system, read_queries(queries), read_dictionary(dictionary), context)


# Benches

HPO_GSC = Linking(
    Card(
        name="hpo_gsc",
        title="HPO GSC+",
        about=(
            "Mentions of phenotypes in 208 abstracts to the Human Phenotype Ontology: 1,949 test "
            "mentions against all labels and synonyms of the release of 2025-01-16."
        ),
        origin="data/corpus.zip of ncbi-nlp/PhenoTagger on GitHub and hp.obo, put into two tables",
        licence="free to use, cite the source; HPO licence",
        files=two_tables(
            queries=(2_122, "0aefcd9c2f16d8d4d49d245ac53942568328a803f9ffbc86178595e0d20eb072"),
            dictionary=(41_498, "80e60381547084dcb376e3174ff1642f3036f63768dec196dd4fce3ec347c9bd"),
        ),
        metrics=ACCURACIES,
        reference="Groza et al. 2015; Lobo et al. 2017, GSC+",
    )
)

MISSPELLING = Linking(
    Card(
        name="misspelling",
        title="Misspellings",
        about="Misspelt words of patients' forums to the right word among 13,029.",
        origin="AnneDirkson/SpellingCorpus on GitHub, put into two tables",
        licence="BSD-like",
        files=two_tables(
            queries=(178, "f9deb195417880241f644732efc20daf5b283929d3d25178568a0ab8317bbb25"),
            dictionary=(13_029, "556a3cb0eeb7afc2392b6811a5ceff6e4f53a2d70888eeb8263fd8bbf0989ee7"),
        ),
        metrics=ACCURACIES,
        reference="Dirkson et al. 2019, Data-driven lexical normalization for medical social media",
    )
)

CUSTOM = Custom(
    Card(
        name="custom",
        title="Your own tables",
        about=(
            "queries.tsv: query, gold_concept_ids with | between several, and lang and split if "
            "you like. dictionary.tsv: concept_id and term, a row for each term. Of splits called "
            "foldN_test, or else test, only those count. Quotes are part of the text."
        ),
        origin="you",
        licence="yours",
        files=two_tables(),
        metrics=ACCURACIES,
    )
)
