"""Linking on folds as the paper's code has them: FOLD/standard.txt and FOLD/test.txt.

Both have `ID<TAB>TEXT` lines: the one name of each concept, the same in all folds, and the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medcoder.errors import InputError
from medcoder.evaluate.benches.linking import (
    ACCURACIES,
    QUERIES,
    Linking,
    Query,
    checked_dictionary,
    two_tables,
)
from medcoder.evaluate.benches.task import Card
from medcoder.evaluate.protocols import Context, Embedding, Linker, Result
from medcoder.evaluate.ranking import Dictionary
from medcoder.tables.text import read_lines

NAMES, TEST = "standard.txt", "test.txt"


@dataclass(frozen=True)
class Folds(Linking):
    """The two tables, or the folders of the folds."""

    expected: tuple[int, int] = (0, 0)  # queries over all folds, and names; 0: any

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = self.card.place(data)
        if (folder / QUERIES).exists() or not _folds(folder):
            return super().files(data, context)
        found = [fold / name for fold in _folds(folder) for name in (NAMES, TEST)]
        return [file for file in found if file.exists()]

    def found(self, data: Path, context: Context) -> bool:
        inside = data / (self.card.folder or self.card.name)
        return super().found(data, context) or bool(_folds(inside))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        folder = self.card.place(data)
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
            Query(text, "en", one, f"fold{number}_test") for one, text in _read(fold / TEST)
        ]
        own = _read(fold / NAMES)
        if names and own != names:
            raise InputError(
                "its names differ from those of another fold",
                file=fold / NAMES,
                remedy="All folds of a set rank the same names: unpack it again",
            )
        names = own
    return queries, checked_dictionary(names, folder / NAMES)


def _folds(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.glob(f"*/{TEST}"))


def _read(file: Path) -> list[tuple[str, str]]:
    if not file.exists():
        raise InputError(
            "it is missing", file=file, remedy="A fold has both files: unpack it again"
        )
    rows = []
    for row, line in enumerate(read_lines(file), 1):
        one, tab, words = line.strip().partition("\t")
        if line.strip() and not (tab and one and words):
            raise InputError(
                f"it is not of the form ID<TAB>TEXT: {line!r}",
                file=file,
                row=row,
                remedy="Get it again",
            )
        if line.strip():
            rows.append((one, words))
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
