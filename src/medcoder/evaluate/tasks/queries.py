"""The two tables of a linking bench: queries with their gold ids, and a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from medcoder.errors import InputError
from medcoder.evaluate.card import Needed, read_table
from medcoder.evaluate.linking import Dictionary

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
        found = _FOLD.fullmatch(self.split)
        return found[1] if found else ""


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
    rows = read_table(file, QUERY_COLUMNS, optional=("lang", "split"))
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
    rows = read_table(file, DICTIONARY_COLUMNS)
    return checked_dictionary(rows, file)


def checked_dictionary(rows: Iterable[tuple[str, ...]], file: Path) -> Dictionary:
    """Terms with their concepts, at least one."""
    pairs = list(rows)
    if not pairs:
        raise InputError("it has no terms", file=file, remedy="Add a row for each term")
    return Dictionary([concept for concept, _ in pairs], [term for _, term in pairs])
