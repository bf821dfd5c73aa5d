"""The dictionary of abbreviations that comes with the package: a file a language.

A row is an abbreviation, what it stands for, that in English where the language is another, the
specialty, and how often it does, of 100 times that a hospital writes it. Look-up and training both
read it.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from medcoder.errors import ArtefactError

FOLDER = Path(__file__).parent / "abbreviations"
COLUMNS = ("abbreviation", "expansion", "english", "specialty", "share")


class Sense(NamedTuple):
    """What an abbreviation stands for."""

    abbreviation: str
    expansion: str
    english: str
    language: str
    specialty: str
    share: float  # of its uses in this language


def bundled_senses() -> list[Sense]:
    """Those of all languages."""
    return [sense for file in sorted(FOLDER.glob("*.tsv")) for sense in read_senses(file)]


def read_senses(file: Path) -> list[Sense]:
    """The senses of a file, whose name is its language."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        return [
            Sense(
                row["abbreviation"],
                row["expansion"],
                row.get("english") or row["expansion"],
                file.stem,
                row["specialty"],
                int(row["share"]) / 100,
            )
            for row in rows
        ]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ArtefactError(
            "the dictionary of abbreviations cannot be read", where=file, values=error,
            remedy="Correct the file; that of the package is mended by installing medcoder again",
        ) from error  # fmt: skip
