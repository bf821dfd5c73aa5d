"""OMOP source_to_concept_map. https://ohdsi.github.io/CommonDataModel/cdm54.html"""

from __future__ import annotations

import csv
from pathlib import Path

from medcoder.files import replacing
from medcoder.mapping.exports.common import (
    Cells,
    Seen,
    many,
    source_name,
    terms,
)
from medcoder.mapping.exports.concepts import concepts_for
from medcoder.mapping.store import Project
from medcoder.progress import Progress

COLUMNS = (
    "source_code",
    "source_concept_id",
    "source_vocabulary_id",
    "source_code_description",
    "target_concept_id",
    "target_vocabulary_id",
    "valid_start_date",
    "valid_end_date",
    "invalid_reason",
)
_INEXACT = ("broader", "narrower", "related")
START, END = "1970-01-01", "2099-12-31"  # as Usagi and the OHDSI vocabularies have it
LIMITS = {"source_code": 50, "source_vocabulary_id": 20, "source_code_description": 255}


def export(
    project: Project,
    path: Path,
    *,
    concepts: Path | None = None,
    source_vocabulary: str = "",
    missing_ok: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Write one row for each source term; one without a target gets concept 0.

    concepts: a CONCEPT.csv; needed unless the terminology is one of OMOP
    source_vocabulary: value of source_vocabulary_id; the project's own where it is not given
    missing_ok: let targets that the CONCEPT table does not have become 0
    """
    found, cell, seen = concepts_for(project, concepts), Cells(), Seen()
    vocabulary = source_vocabulary or source_name(project)
    long = dict.fromkeys(LIMITS, 0)
    undecided = inexact = not_standard = unnamed = 0
    with replacing(path) as partial:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            table = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            table.writeheader()
            for mapping in terms(project, progress):
                seen(mapping)
                concept, decision = found.of(mapping.target), mapping.decision
                undecided += decision is None and mapping.status != "auto"
                inexact += decision is not None and decision.equivalence in _INEXACT
                not_standard += concept.standard is False
                unnamed += not mapping.row.code
                row = {
                    "source_code": cell(mapping.row.code or mapping.row.text),
                    "source_concept_id": 0,
                    "source_vocabulary_id": cell(vocabulary),
                    "source_code_description": cell(mapping.row.text),
                    "target_concept_id": concept.id,
                    "target_vocabulary_id": concept.vocabulary,
                    "valid_start_date": START,
                    "valid_end_date": END,
                    "invalid_reason": "",
                }
                for name, limit in LIMITS.items():
                    long[name] += len(str(row[name])) > limit
                table.writerow(row)
        notes = found.check(concepts or "the terminology", missing_ok=missing_ok)
    notes += seen.single()
    notes.append("who decided, when, notes and confidence are not in the file")
    if seen.counts["context"]:
        those = many(seen.counts["context"], "term")
        notes.append(f"language and context of {those} are not in the file")
    notes += seen.flagged("with the decided concept")
    for what, count in (
        ("terms on which nothing is decided, with concept 0", undecided),
        ("targets that are not equivalent to the source, which is not said", inexact),
        ("targets that are no standard concepts: in a CDM, follow their 'Maps to'", not_standard),
        ("terms without a code, with their text as source_code", unnamed),
        *((f"{name} longer than the {LIMITS[name]} characters of a CDM, not cut", long[name])
          for name in LIMITS),
    ):  # fmt: skip
        notes += [f"{what}: {count:,}"] if count else []
    return notes + cell.notes()
