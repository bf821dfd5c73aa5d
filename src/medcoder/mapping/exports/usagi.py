"""The file that Usagi saves and opens: CSV with a backslash before quotes and backslashes.

Usagi reads line by line and does not know doubled quotes, so RFC 4180 would not do. Columns are
those of its version 1.4.
"""

from __future__ import annotations

from pathlib import Path

from medcoder.files import replacing
from medcoder.mapping.base import Mapping, Target
from medcoder.mapping.equivalence import TABLE
from medcoder.mapping.exports.common import (
    HISTORY,
    Cells,
    Seen,
    from_time,
    many,
    terms,
    to_time,
)
from medcoder.mapping.exports.concepts import NONE, Concepts, concepts_for
from medcoder.mapping.store import Project
from medcoder.progress import Progress

SOURCE = ("sourceCode", "sourceName", "sourceFrequency", "sourceAutoAssignedConceptIds")
ADD_INFO = "ADD_INFO:"
REST = (
    "matchScore",
    "mappingStatus",
    "equivalence",
    "statusSetBy",
    "statusSetOn",
    "conceptId",
    "conceptName",
    "domainId",
    "mappingType",
    "comment",
    "createdBy",
    "createdOn",
    "assignedReviewer",
)
STATUS = {
    "approved": "APPROVED",
    "flagged": "FLAGGED",
    "auto": "AUTO_MAPPED_TO_1",
    "review": "UNCHECKED",
    "none": "UNCHECKED",
}
LANGUAGE = "language"
AUTHOR = "medcoder"  # who made mappings that no person made


def export(
    project: Project,
    path: Path,
    *,
    concepts: Path | None = None,
    missing_ok: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Write one line for each source term; one to be reviewed comes with its first candidate.

    concepts: a CONCEPT.csv; needed unless the terminology is one of OMOP
    missing_ok: let targets that the CONCEPT table does not have become 0
    """
    found, cell, seen = concepts_for(project, concepts), Cells(), Seen()
    meta = project.meta
    info = ([LANGUAGE] if meta.get("language") else []) + list(meta.get("context") or {})
    created = _milliseconds(str(meta.get("created") or "1970-01-01T00:00:00Z"))
    other = 0
    with replacing(path) as partial:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            names = [*SOURCE, *(ADD_INFO + name for name in info), *REST]
            stream.write(_line([cell(name) for name in names]))
            for mapping in terms(project, progress):
                seen(mapping)
                values = _values(mapping, found, created)
                context = {LANGUAGE: mapping.row.language, **mapping.row.context}
                extra = [context.get(name, "") for name in info]
                # Known only by the id: other candidates.
                other += len(mapping.candidates) > 1
                stream.write(_line([cell(v) for v in [*values[:4], *extra, *values[4:]]]))
        notes = found.check(concepts or "the terminology", missing_ok=missing_ok)
    notes.append(HISTORY)
    if other:
        notes.append(
            f"of the candidates of {many(other, 'term')} only the concept ids are in the file"
        )
    notes += seen.flagged("with the reason in the comment")
    return notes + cell.notes()


def _values(mapping: Mapping, found: Concepts, created: int) -> list[str]:
    row, decision, target = mapping.row, mapping.decision, mapping.target
    offered = [
        found.find(Target(candidate.concept, candidate.name, candidate.codes))
        for candidate in mapping.candidates
    ]
    ids = list(dict.fromkeys(str(concept.id) for concept in offered if concept))
    concept = found.of(target)
    if mapping.status == "review" and offered and offered[0]:
        concept = offered[0]
    comment = decision.note if decision else ""
    if mapping.flag:
        comment = f"{comment} [flagged: {mapping.flag}]".strip()
    made = _milliseconds(decision.when) if decision else created
    return [
        row.code,
        row.text,
        str(row.count),
        ";".join(ids),
        f"{mapping.confidence:.4f}",
        STATUS[mapping.status],
        TABLE[decision.equivalence].usagi if decision else "UNREVIEWED",
        decision.who if decision else "",
        str(made) if decision else "0",
        str(concept.id),
        concept.name if concept is not NONE else "Unmapped",
        concept.domain,
        "MAPS_TO",
        comment,
        (decision.who if decision else AUTHOR) if concept is not NONE else "",
        str(made) if concept is not NONE else "0",
        "",
    ]


def _milliseconds(when: str) -> int:
    return round(to_time(from_time(to_time(when))).timestamp() * 1000)


def _line(values: list[str]) -> str:
    return ",".join(map(quoted, values)) + "\n"


def quoted(value: str) -> str:
    r"""A field as Usagi writes it.

    >>> print(quoted('5" tube'), quoted("a,b"), quoted("a" + chr(92) + "b"), quoted("a b"))
    "5\" tube" "a,b" a\\b a b
    """
    made = value.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{made}"' if '"' in value or "," in value else made
