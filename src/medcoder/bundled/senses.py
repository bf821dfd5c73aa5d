"""The dictionary of abbreviations that comes with the package: a file a language.

A row is an abbreviation, what it stands for, that in English where the language is another, the
specialty, and how often it does, of 100 times that a hospital writes it. Look-up and training both
read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from medcoder.errors import ArtefactError

FOLDER = Path(__file__).parent / "abbreviations"
_NEEDED = ("abbreviation", "expansion", "specialty", "share")
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
        header, *lines = file.read_text(encoding="utf-8").split("\n")
        places = [header.split("\t").index(name) for name in _NEEDED]
        other = header.split("\t").index("english") if "english" in header else places[1]
        senses = []
        for line in lines:
            if line:
                row = line.split("\t")
                short, long, specialty, share = (row[place] for place in places)
                percent = int(share) / 100
                senses.append(Sense(short, long, row[other], file.stem, specialty, percent))
        return senses
    except (OSError, ValueError, IndexError) as error:
        raise ArtefactError(
            "the dictionary of abbreviations cannot be read", where=file, values=error,
            remedy="Correct the file; that of the package is mended by installing medcoder again",
        ) from error  # fmt: skip
