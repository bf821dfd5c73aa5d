"""Linking on tables of your own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medcoder.errors import UsageError
from medcoder.evaluate.base import Context, Embedding, Linker, Result
from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.concepts import Linking
from medcoder.evaluate.tasks.queries import read_dictionary, read_queries, two_tables

CARD = Card(
    name="custom",
    title="Your own tables",
    about=(
        "queries.tsv: query, gold_concept_ids with | between several, and lang and split if you "
        "like. dictionary.tsv: concept_id and term, a row for each term. Of splits called "
        "foldN_test, or else test, only those count. Quotes are part of the text."
    ),
    origin="you",
    licence="yours",
    files=two_tables(),
    metrics=("acc@1", "acc@3"),
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

    def found(self, data: Path, context: Context) -> bool:
        return bool(context.options.get("queries")) or self.card.found(data)

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        queries, dictionary = self.tables(data, context)
        return self.measure(system, read_queries(queries), read_dictionary(dictionary), context)


BENCH = Custom(CARD)
