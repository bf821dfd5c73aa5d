"""Linking corpora in the files that they are published in, or in the two tables.

As the paper's code has its folds, with `ID<TAB>TEXT` lines: the name of each concept, the same in
all folds, and the queries.

    FOLD/standard.txt, FOLD/test.txt

As BioSyn has its sets:

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
from medcoder.evaluate.ranking import Dictionary
from medcoder.evaluate.results import Context, Embedding, Linker, Ranked, Result
from medcoder.tables.text import read_lines

STANDARD, TEST = "standard.txt", "test.txt"  # of a fold
NAMES, MENTIONS = "test_dictionary.txt", "processed_test"  # of BioSyn
_BAR = "||"


# Folds


@dataclass(frozen=True)
class Folds(Linking):
    """The two tables, or the folders of the folds."""

    expected: tuple[int, int] = (0, 0)  # queries over all folds, and names; 0: any

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = self.card.folder_in(data)
        if (folder / QUERIES).exists() or not _folds(folder):
            return super().files(data, context)
        files = [fold / name for fold in _folds(folder) for name in (STANDARD, TEST)]
        return [file for file in files if file.exists()]

    def has_data(self, data: Path, context: Context) -> bool:
        inside = data / (self.card.folder or self.card.name)
        return super().has_data(data, context) or bool(_folds(inside))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        folder = self.card.folder_in(data)
        if (folder / QUERIES).exists() or not _folds(folder):
            return super().run(system, data, context)
        queries, dictionary = read_folds(folder)
        counts = len(queries), len(dictionary)
        if context.pinned and any(self.expected) and counts != self.expected:
            raise InputError(
                f"the folds have {counts[0]:,} queries and {counts[1]:,} names, and the figures of "
                f"{self.card.title} are for {self.expected[0]:,} and {self.expected[1]:,}",
                file=folder,
                remedy=f"Get them again from {self.card.origin}",
            )
        return self.measure(system, queries, dictionary, context)


def read_folds(folder: Path) -> tuple[list[Query], Dictionary]:
    """Queries of all folds, and the names."""
    queries: list[Query] = []
    names: list[tuple[str, str]] = []
    for number, fold in enumerate(_folds(folder)):
        queries += [
            Query(text, "en", concept, f"fold{number}_test")
            for concept, text in _read_fold(fold / TEST)
        ]
        own = _read_fold(fold / STANDARD)
        if names and own != names:
            raise InputError(
                "its names differ from those of another fold",
                file=fold / STANDARD,
                remedy="All folds of a set rank the same names: unpack it again",
            )
        names = own
    return queries, checked_dictionary(names, folder / STANDARD)


def _folds(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob(f"*/{TEST}"))


def _read_fold(file: Path) -> list[tuple[str, str]]:
    if not file.exists():
        raise InputError(
            "it is missing", file=file, remedy="A fold has both files: unpack it again"
        )
    rows = []
    for row, line in enumerate(read_lines(file), 1):
        concept, tab, words = line.strip().partition("\t")
        if line.strip() and not (tab and concept and words):
            raise InputError(
                "it is not of the form ID<TAB>TEXT",
                file=file,
                row=row,
                values=repr(line),
                remedy="Get it again",
            )
        if line.strip():
            rows.append((concept, words))
    return rows


CADEC = Folds(
    Card(
        name="cadec",
        title="Cadec",
        about=(
            "Patients' words for side effects, from a forum, to SNOMED CT: the folds that were "
            "published with the paper's code, 2,159 queries over all folds and 181 concepts with "
            "one name each. acc@k is the unweighted mean of the five folds. Takes the "
            "folders of the folds as they are published, or the two tables."
        ),
        origin="test/cadec/data/cadec of GanjinZero/CODER on GitHub",
        licence="CSIRO data licence",
        files=two_tables(
            queries=(10_795, "938a8d15e99593c6f3c1f103a8ec6c03a453b977d1094727a242d5a62b25c2d7"),
            dictionary=(181, "23c7e3dc4b0cfbb2d7130bb1562d274986b938ec009df48315b04da50e5446b2"),
        ),
        metrics=ACCURACIES,
        reference="Karimi et al. 2015, Cadec: a corpus of adverse drug event annotations",
    ),
    expected=(2_159, 181),
)

PSYTAR = Folds(
    Card(
        name="psytar",
        title="PsyTar",
        about=(
            "Patients' words for the effects of psychiatric drugs to SNOMED CT: the folds that "
            "were published with the paper's code, 2,591 queries over all folds and 167 concepts "
            "with one name each. acc@k is the unweighted mean of the five folds. Quotes are part "
            "of the text. Takes the folders of the folds as they are published, or the two tables."
        ),
        origin="test/cadec/data/psytar_disjoint_folds of GanjinZero/CODER on GitHub",
        licence="CC BY 4.0",
        files=two_tables(
            queries=(12_955, "fbe39229cbd80c52cac114be43132ae7a1aae71e509a2cecf4341b0562c19012"),
            dictionary=(167, "c8a9d85fad7ef4873b688926a9425ae6084c9ce9897f8fffa89792aed4415769"),
        ),
        metrics=ACCURACIES,
        reference="Zolnoori et al. 2019, The PsyTAR dataset",
    ),
    expected=(2_591, 167),
)


# BioSyn


@dataclass(frozen=True)
class Biosyn(Linking):
    """acc@k over test mentions; a composite one needs all of its parts among the first k."""

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = self.card.folder_in(data)
        if (folder / QUERIES).exists() or not (folder / NAMES).exists():
            return super().files(data, context)
        return [folder / NAMES, *_concept_files(folder)]

    def has_data(self, data: Path, context: Context) -> bool:
        inside = data / (self.card.folder or self.card.name)
        return super().has_data(data, context) or (inside / NAMES).exists()

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        folder = self.card.folder_in(data)
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
            measured
            for split, rows in self.splits(queries, whole, context)
            for measured in self.figures(split, rows, queries, whole, context)
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
    files = sorted((folder / MENTIONS).glob("*.concept"))
    if not files:
        raise InputError(
            "there are no files NAME.concept",
            file=folder / MENTIONS,
            remedy="Unpack the test split of BioSyn there",
        )
    return files


def _lines(file: Path) -> list[str]:
    return [line for line in read_lines(file) if line]


def _bad(file: Path, row: int, line: str, form: str) -> InputError:
    return InputError(
        f"it is not of the form {form}",
        file=file,
        row=row,
        values=repr(line),
        remedy="Get the files of BioSyn again",
    )


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
