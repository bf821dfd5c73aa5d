"""Linking in the form of BioSyn: its own files, or the two tables.

    test_dictionary.txt             D003920||diabetes mellitus   (ids with | between several)
    processed_test/NAME.concept     8563759||0|13||DiseaseClass||diabetes mellitus||D003920

A composite mention, "breast|ovarian cancer" with "D001943|D010051", is right if each of its parts
is; ids with + between them are alternatives too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.benches.linking import (
    ACCURACIES,
    QUERIES,
    SHOWN,
    Linked,
    Linking,
    Query,
    checked_dictionary,
    link_all,
    predictions,
    two_tables,
)
from medcoder.evaluate.benches.task import Card, word_figures
from medcoder.evaluate.protocols import Context, Embedding, Linker, Ranked, Result
from medcoder.evaluate.ranking import Dictionary
from medcoder.tables.text import read_lines

NAMES, MENTIONS = "test_dictionary.txt", "processed_test"
_BAR = "||"


@dataclass(frozen=True)
class Biosyn(Linking):
    """acc@k over test mentions; a composite one needs all of its parts among the first k."""

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = self.card.place(data)
        if (folder / QUERIES).exists() or not (folder / NAMES).exists():
            return super().files(data, context)
        return [folder / NAMES, *_concept_files(folder)]

    def found(self, data: Path, context: Context) -> bool:
        inside = data / (self.card.folder or self.card.name)
        return super().found(data, context) or (inside / NAMES).exists()

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        folder = self.card.place(data)
        if (folder / QUERIES).exists() or not (folder / NAMES).exists():
            return super().run(system, data, context)
        return self.measure(system, read_mentions(folder), read_names(folder / NAMES), context)

    def measure(
        self,
        system: Embedding | Linker,
        queries: Sequence[Query],
        dictionary: Dictionary,
        context: Context,
    ) -> Result:
        parts = [
            (mention, query._replace(text=text))
            for mention, query in enumerate(queries)
            for text in _parts(query.text)
        ]
        linked = link_all(
            system, [query for _, query in parts], dictionary, max(SHOWN, *self.ks), context
        )
        whole = _worst(linked, np.array([mention for mention, _ in parts]))
        figures = [
            found
            for split, rows in self.splits(queries, whole, context)
            for found in self.figures(split, rows, queries, whole, context)
        ]
        figures += word_figures(system, [query.text for query in queries], context)
        return Result(figures, list(predictions([query for _, query in parts], dictionary, linked)))


def _worst(linked: Linked, mentions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Linked:
    """Of each mention its worst part: what counts is that all are found."""
    missing = np.iinfo(np.int64).max
    first = np.flatnonzero(np.diff(mentions, prepend=-1))
    ranks = np.maximum.reduceat(np.where(linked.ranks < 0, missing, linked.ranks), first)
    return Linked(
        Ranked(linked.ranked.rows[first], linked.ranked.scores[first]),
        np.where(ranks == missing, -1, ranks),
        np.logical_and.reduceat(linked.known, first),
        np.logical_and.reduceat(linked.seen, first),
    )


def _parts(mention: str) -> list[str]:
    return [part for part in mention.split("|") if part.strip()] or [mention]


def read_names(file: Path) -> Dictionary:
    rows = []
    for row, line in enumerate(_lines(file), 1):
        concept, bar, name = line.partition(_BAR)
        if not (bar and concept and name):
            raise _bad(file, row, line, "ID||NAME")
        rows.append((concept, name))
    return checked_dictionary(rows, file)


def read_mentions(folder: Path) -> list[Query]:
    queries = []
    for file in _concept_files(folder):
        for row, line in enumerate(_lines(file), 1):
            fields = line.split(_BAR)
            if len(fields) != 5 or not fields[4]:
                raise _bad(file, row, line, "DOCUMENT||START|END||TYPE||MENTION||ID")
            queries.append(Query(fields[3], "en", fields[4].replace("+", "|"), "test"))
    return queries


def _concept_files(folder: Path) -> list[Path]:
    found = sorted((folder / MENTIONS).glob("*.concept"))
    if not found:
        raise InputError(
            "there are no files NAME.concept",
            file=folder / MENTIONS,
            remedy="Unpack the test split of BioSyn there",
        )
    return found


def _lines(file: Path) -> list[str]:
    return [line for line in read_lines(file) if line]


def _bad(file: Path, row: int, line: str, form: str) -> InputError:
    return InputError(f"it is not of the form {form}: {line!r}", file=file, row=row,
                      remedy="Get the files of BioSyn again")  # fmt: skip


NCBI = Biosyn(
    Card(
        name="ncbi",
        title="NCBI disease",
        about=(
            "Mentions of diseases in abstracts to MeSH and OMIM, in the form of BioSyn: the test "
            "mentions against all names of its test dictionary. Takes the files of BioSyn "
            "(test_dictionary.txt and processed_test), or the two tables."
        ),
        origin="the data of dmis-lab/BioSyn on GitHub",
        licence="public domain (NCBI)",
        files=two_tables(),
        metrics=ACCURACIES,
        reference="Dogan et al. 2014, NCBI disease corpus; Sung et al. 2020, BioSyn",
    )
)

BC5CDR = Biosyn(
    Card(
        name="bc5cdr",
        title="BC5CDR disease",
        about=(
            "Mentions of diseases in abstracts to MeSH in the form of BioSyn: 4,235 test "
            "mentions, the parts of composite ones apart and not tested, against all names of its "
            "test dictionary."
        ),
        origin="the resources of rescnn_bioel (laituan245 on GitHub), put into two tables",
        licence="public domain (BioCreative V CDR)",
        files=two_tables(
            queries=(12_835, "fc4be5fbb89276879f5057813f2908e1a0839b8a3c2d71b981994c9bb8abf00d"),
            dictionary=(73_126, "d8085f74c93279d6cfddb96a3d5fe5e47791dc39869b3aa9ec49d898f263e916"),
        ),
        folder="bc5cdr_d_biosyn",
        metrics=ACCURACIES,
        reference="Li et al. 2016, BioCreative V CDR; Sung et al. 2020, BioSyn",
    )
)
