"""What a refresh changed: terms that were mapped automatically, or are now, to something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from medcoder.files import replacing
from medcoder.mapping.project import Project, queries, stored
from medcoder.mapping.project.records import TermMapping
from medcoder.tables import grouped
from medcoder.tables.write import TextWriter, safe

FILE = "changed.tsv"
# Mapped to another concept; mapped now, and not before; mapped before, and not now.
KINDS = ("automatic", "new", "gone")
COLUMNS = (
    "row", "text", "change", "was_concept", "was_name", "is_concept", "is_name", "why", "decided",
)  # fmt: skip
_NOW = f"""({queries.TRUSTED} AND s.confidence >=
    (SELECT json_extract(value, '$') FROM meta WHERE key = 'threshold'))"""
_TERMS = f"""SELECT t.id, t.first, s.was, ifnull({_NOW}, 0)
    FROM terms t JOIN strings s ON s.id = t.string
    WHERE s.was != '[]' OR {_NOW} ORDER BY t.id"""

Named = tuple[tuple[str, str], ...]  # ids and names of concepts


class Change(NamedTuple):
    """A term whose automatic answer changed."""

    kind: str  # one of KINDS
    mapping: TermMapping
    was: Named
    now: Named

    @property
    def why(self) -> str:
        """What found the new answer, or why there is none any more."""
        mapping = self.mapping
        if self.now:
            stages = dict.fromkeys(match.stage for match in mapping.leading)
            split = ["split"] if mapping.said.parts else []
            return ", ".join([*split, *stages])
        if mapping.review:
            return f"review: {mapping.review}"
        if mapping.said.reason:
            return mapping.said.reason
        if mapping.candidates:
            return f"a confidence of {mapping.confidence:.2f} is not enough"
        return "nothing is found"


def changed(project: Project) -> tuple[dict[str, int], Path]:
    """Write the list of changes beside the results; gives their number by kind, and its path."""
    path, counts = project.path.parent / FILE, Counter[str]()
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        table = TextWriter(stream, delimiter="\t")
        table.row(COLUMNS)
        for change in changes(project):
            counts[change.kind] += 1
            table.row([safe(field, "\t") for field in _fields(change)])
    return {kind: counts[kind] for kind in KINDS}, path


def changes(project: Project) -> Iterator[Change]:
    """Terms whose automatic answer is another than that of the run before, decided or not."""
    with project.snapshot() as base:
        for batch in grouped(base.execute(_TERMS), queries.VARIABLES, lambda row: 1):
            marks = ",".join("?" * len(batch))
            where, values = f"WHERE t.id IN ({marks})", [row[0] for row in batch]
            found = queries.mappings(base, terms=True, where=where, values=values)
            for (_, first, before, trusted), mapping in zip(batch, found, strict=True):
                was = stored.was(before, first)
                now = tuple((match.concept, match.name) for match in mapping.leading)
                now = now if trusted else ()
                if [concept for concept, _ in was] != [concept for concept, _ in now]:
                    kind = "gone" if not now else "automatic" if was else "new"
                    yield Change(kind, mapping, was, now)


def _fields(change: Change) -> list[str]:
    row, made = change.mapping.row, change.mapping.decision
    decided = "" if made is None else made.concept or made.equivalence
    return [
        str(row.number), row.text, change.kind, *_named(change.was), *_named(change.now),
        change.why, decided,
    ]  # fmt: skip


def _named(concepts: Named) -> tuple[str, str]:
    """Ids and names, with bars between."""
    return "|".join(concept for concept, _ in concepts), "|".join(name for _, name in concepts)
