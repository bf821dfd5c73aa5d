"""Where ICD-10-CM puts what was, and what is in the family.

Its codes for that say what they are for. Z83.3, family history of diabetes mellitus, has the note
"Conditions classifiable to E08-E13". `bundled/past.tsv` has these notes: a code, whether it is of
the past (history) or of the family, and the first and last code of a range that it is for.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import medcoder.bundled
from medcoder.errors import ArtefactError

VOCABULARY = "ICD10CM"
FILE = Path(medcoder.bundled.__file__).parent / "past.tsv"


class Note(NamedTuple):
    """A range of codes that a code is for."""

    code: str
    decides: str  # history, family
    first: str
    last: str

    def covers(self, code: str) -> bool:
        """
        >>> Note("Z83.3", "family", "E08", "E13").covers("E13.9")
        True
        """
        return self.first <= code and (code <= self.last or code.startswith(self.last))

    @property
    def width(self) -> int:
        """How many categories are in it; in fewer, it says more."""
        (letter, number), (first, start) = _place(self.last), _place(self.first)
        return (letter - first) * 100 + number - start


def code_for(decides: str, code: str) -> str | None:
    """The code for what a code is of, where that was (history) or is in the family.

    >>> code_for("family", "E11.9"), code_for("history", "I63.9"), code_for("family", "R05.9")
    ('Z83.3', 'Z86.7', None)
    """
    notes = [note for note in _notes() if note.decides == decides and note.covers(code)]
    best = min(notes, key=lambda note: (note.width, -len(note.code)), default=None)
    return None if best is None else best.code


@cache
def _notes() -> tuple[Note, ...]:
    try:
        lines = FILE.read_text(encoding="utf-8").split("\n")[1:]
        return tuple(Note(*line.split("\t")) for line in lines if line)
    except (OSError, TypeError, ValueError) as error:
        raise ArtefactError(
            "the table of codes for what was cannot be read",
            where=FILE,
            values=error,
            remedy="Install medcoder again",
        ) from error


def _place(code: str) -> tuple[int, int]:
    """The letter of a category, and its number; 9A comes after 99."""
    number = code[1:3]
    return ord(code[0]), int(number) if number.isdigit() else 100
