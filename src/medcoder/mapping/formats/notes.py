"""What exports share: progress, cells that were changed, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from medcoder.mapping.project import Project
from medcoder.mapping.project.records import TermMapping
from medcoder.tables.write import Guard
from medcoder.text import clean
from medcoder.types import Progress

HISTORY = "the history of decisions is in the project only"
_STEP = 1000  # mappings between two reports


def watched(
    mappings: Iterable[TermMapping], total: int, progress: Progress | None
) -> Iterator[TermMapping]:
    """The mappings, with reports on how many there were."""
    done = 0
    for done, mapping in enumerate(mappings, 1):
        yield mapping
        if progress and done % _STEP == 0:
            progress("writing", done, max(total, done))
    if progress:
        progress("writing", done, max(total, done))


def terms(project: Project, progress: Progress | None = None) -> Iterator[TermMapping]:
    """Every source term once."""
    total = sum(count["terms"] for count in project.counts().values())
    return watched(project.terms(), total, progress)


def rows(project: Project, progress: Progress | None = None) -> Iterator[TermMapping]:
    """Every row."""
    return watched(project.mappings(), len(project), progress)


class Cells(Guard):
    """Text for a table that may be opened in a spreadsheet, with a note on what was changed."""

    def notes(self) -> list[str]:
        if not self.changed:
            return []
        return [
            "cells that would be taken for a formula, with an apostrophe before them: "
            f"{self.changed:,}"
        ]


class Seen:
    """What was met while writing terms, for the notes of formats that hold targets only."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, mapping: TermMapping) -> None:
        self.counts[mapping.status] += 1
        self.counts["candidates"] += len(mapping.candidates) > 1
        self.counts["context"] += bool(mapping.row.language or mapping.row.context)

    def undecided(self) -> list[str]:
        """On terms that have no target yet."""
        names = {"review": "to be reviewed", "none": "without a match that nobody has looked at"}
        left = [f"{self.counts[key]:,} {name}" for key, name in names.items() if self.counts[key]]
        return [f"not in the file, since nothing is decided: {' and '.join(left)}"] if left else []

    def flagged(self, how: str) -> list[str]:
        count = self.counts["flagged"]
        return [f"decisions to be looked at again, {how}: {count:,}"] if count else []

    def single(self) -> list[str]:
        """On what a format with one target a term leaves out."""
        notes = [HISTORY]
        if self.counts["candidates"]:
            count = many(self.counts["candidates"], "term")
            notes.append(f"other candidates of {count} are not in the file")
        return notes


def many(count: int, noun: str) -> str:
    """A number with its noun.

    >>> many(1, "row"), many(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_unchecked(mapping: TermMapping) -> bool:
    """Whether there is nothing that a file of mappings could say about a term."""
    return mapping.decision is None and mapping.status != "auto"


def confidence_of(mapping: TermMapping) -> float | None:
    """The machine's confidence in the target; None where it is not one of its candidates."""
    target = mapping.target
    for candidate in mapping.candidates:
        if target is not None and candidate.concept == target.concept:
            return candidate.confidence
    return None


def source_name(project: Project) -> str:
    """What the vocabulary of the local codes is called."""
    meta = project.meta
    named = (meta.get("source_vocabulary") or {}).get("name") or ""
    stem = str(meta.get("file") or "").rsplit("/", 1)[-1].split(".")[0]
    return clean(named or stem) or "local"


def asked(project: Project) -> tuple[str, ...]:
    """Vocabularies that the project was made for; empty: any."""
    return tuple(project.meta.get("vocabularies") or ())


def versions(project: Project) -> dict[str, str]:
    """Versions of the target vocabularies."""
    found = (project.meta.get("terminology") or {}).get("vocabularies") or {}
    return {name: str(version) for name, version in found.items() if version}


def to_time(when: str) -> datetime:
    """An ISO time, in UTC."""
    time = datetime.fromisoformat(when)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def from_time(time: datetime) -> str:
    """As the project writes times.

    >>> from_time(to_time("2026-01-02T03:04:05.006+01:00"))
    '2026-01-02T02:04:05.006Z'
    """
    plain = time.astimezone(UTC).isoformat(timespec="milliseconds")
    return plain.replace("+00:00", "Z")
