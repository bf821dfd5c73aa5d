"""SSSOM: a TSV of mappings with metadata on top. https://mapping-commons.github.io/sssom/

A term with a local code is a subject with an id; one without is a literal, as the standard has it
for strings. The column `other` has what a record cannot say otherwise: the time of a decision, how
often a term occurs, its language and context, and our id of the concept.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from urllib.parse import quote

from medcoder.files import replacing
from medcoder.mapping.base import Candidate, Mapping
from medcoder.mapping.equivalence import NO_TERM_FOUND, TABLE
from medcoder.mapping.exports.common import (
    Cells,
    Seen,
    asked,
    is_unchecked,
    source_name,
    terms,
    to_time,
    versions,
)
from medcoder.mapping.store import Project
from medcoder.mapping.systems import System, curie, prefix_of, system_of, written_codes
from medcoder.progress import Progress
from medcoder.types import Code

COLUMNS = (
    "subject_id",
    "subject_label",
    "subject_type",
    "predicate_id",
    "object_id",
    "object_label",
    "mapping_justification",
    "author_label",
    "object_source",
    "object_source_version",
    "mapping_date",
    "confidence",
    "similarity_score",
    "similarity_measure",
    "comment",
    "other",
)
LITERAL = "rdfs literal"
MANUAL = "semapv:ManualMappingCuration"
JUSTIFICATIONS = {
    "exact": "semapv:LexicalMatching",
    "dense": "semapv:SemanticSimilarityThresholdMatching",
    "ngram": "semapv:LexicalSimilarityThresholdMatching",
}
NO_LICENCE = "https://w3id.org/sssom/license/unspecified"
VOCABULARIES = "medcoder"  # prefix for vocabularies that have no web address
BUILT_IN = frozenset({"owl", "rdf", "rdfs", "semapv", "skos", "sssom", VOCABULARIES})
# Readers that use pandas take a cell with one of these words for an empty one.
TAKEN_FOR_EMPTY = frozenset(
    {
        "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
        "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
    }
)  # fmt: skip


def export(
    project: Project,
    path: Path,
    *,
    licence: str = NO_LICENCE,
    set_id: str = "",
    progress: Progress | None = None,
) -> list[str]:
    """Write decisions and automatic mappings.

    licence: URI of the licence of the mappings
    set_id: URI that names this set; made of the input and the terminology where it is not given
    """
    writer = _Writer(project)
    with replacing(path) as partial:
        # The header lists the prefixes that the rows use, so the rows are written first.
        body = partial.with_name(f"{partial.name}.rows")
        try:
            with body.open("w", encoding="utf-8", newline="") as stream:
                writer.write(stream, project, progress)
            with partial.open("wb") as stream_:
                stream_.write(_header(writer, project, licence, set_id).encode())
                with body.open("rb") as rows:
                    shutil.copyfileobj(rows, stream_)
        finally:
            body.unlink(missing_ok=True)
    return writer.notes()


class _Writer:
    """Writes records, and keeps in mind which vocabularies they name."""

    def __init__(self, project: Project) -> None:
        self.source = source_name(project)
        self.prefix = _own_prefix(self.source)
        self.systems: dict[str, System] = {}
        self._asked, self._versions = asked(project), versions(project)
        self._created = str(project.meta.get("created") or datetime.now(UTC).isoformat())
        self._cell, self._seen, self._nameless, self._codes = Cells(), Seen(), 0, 0

    def write(self, stream: IO[str], project: Project, progress: Progress | None) -> None:
        table = csv.writer(stream, delimiter="\t", lineterminator="\n")
        table.writerow(COLUMNS)
        for mapping in terms(project, progress):
            self._seen(mapping)
            if is_unchecked(mapping):
                continue
            if not (mapping.row.text or mapping.row.code):
                self._nameless += 1
                continue
            for record in self._records(mapping):
                table.writerow([record.get(name, "") for name in COLUMNS])

    def notes(self) -> list[str]:
        notes = [*self._seen.single(), *self._seen.undecided()]
        if self._seen.counts["approved"] or self._seen.counts["flagged"]:
            notes.append("the machine's confidence in decided targets is not in the file")
        notes += self._seen.flagged("with the reason in the column other")
        if self._nameless:
            notes.append(f"terms with neither text nor code, left out: {self._nameless:,}")
        if self._codes:
            notes.append(f"targets with further codes, which are not in the file: {self._codes:,}")
        unknown = sorted(name for name, system in self.systems.items() if not system.known)
        if unknown:
            notes.append(f"no web address is known for {', '.join(unknown)}: a urn stands for it")
        return notes + self._cell.notes()

    def _records(self, mapping: Mapping) -> list[dict[str, str]]:
        target, common = mapping.target, self._common(mapping)
        if target is None:
            where = list(self._asked or self._versions)  # where no term was found
            source = self._vocabulary(Code(where[0], "")) if len(where) == 1 else ""
            return [{**common, "object_id": NO_TERM_FOUND, "object_source": source}]
        codes = written_codes(target, self._asked)
        self._codes += len(target.codes) > len(codes)
        return [
            {
                **common,
                "object_id": curie(code),
                "object_label": self._cell(target.name),
                "object_source": self._vocabulary(code),
                "object_source_version": self._versions.get(code.vocabulary, ""),
            }
            for code in codes
        ]

    def _common(self, mapping: Mapping) -> dict[str, str]:
        row, decision, target = mapping.row, mapping.decision, mapping.target
        other = {"count": str(row.count)} if row.count != 1 else {}
        other |= {"language": row.language} if row.language else {}
        other |= {f"context.{name}": value for name, value in row.context.items()}
        if target is not None:
            other["concept"] = target.concept
        if mapping.flag:
            other["flag"] = mapping.flag
        record = {"subject_label": self._cell(row.text)}
        literal = not row.code and row.text not in TAKEN_FOR_EMPTY
        record |= {"subject_type": LITERAL} if literal else {}
        if not literal:
            record["subject_id"] = f"{self.prefix}:{quote(row.code or row.text, safe='')}"
        if row.text in TAKEN_FOR_EMPTY:
            other |= {"text": row.text, "code": row.code}
        if decision is not None:
            other["when"] = decision.when
            record |= {
                "predicate_id": TABLE[decision.equivalence].sssom,
                "mapping_justification": MANUAL,
                "author_label": self._cell(escape(decision.who)),
                "mapping_date": to_time(decision.when).date().isoformat(),
                "comment": self._cell(decision.note),
            }
        else:
            record |= self._automatic(mapping.candidates[0])
        record["other"] = "|".join(f"{escape(k)}={escape(v)}" for k, v in other.items())
        return record

    def _automatic(self, found: Candidate) -> dict[str, str]:
        record = {
            "predicate_id": TABLE["equivalent"].sssom,
            "mapping_justification": JUSTIFICATIONS.get(found.stage, "semapv:CompositeMatching"),
            "mapping_date": to_time(self._created).date().isoformat(),
            "confidence": f"{found.confidence:.6g}",
        }
        if found.stage == "dense" and found.cosine is not None:
            record["similarity_score"] = f"{min(max(found.cosine, 0.0), 1.0):.6g}"
            record["similarity_measure"] = "cosine"
        return record

    def _vocabulary(self, code: Code) -> str:
        system = self.systems.setdefault(code.vocabulary, system_of(code.vocabulary))
        return system.uri if system.known else _unknown(code.vocabulary)


def escape(text: str) -> str:
    """A key or value of `other`: no bar and no equals sign inside.

    >>> escape("a|b=50%")
    'a%7Cb%3D50%25'
    """
    return re.sub(r"[%|=\x00-\x1f]", lambda found: f"%{ord(found[0]):02X}", text)


def _own_prefix(name: str) -> str:
    """The prefix of the local codes, which is no other vocabulary's."""
    prefix = prefix_of(name)
    taken = prefix in BUILT_IN or system_of(prefix).known
    return f"{prefix}_local" if taken else prefix


def _unknown(vocabulary: str) -> str:
    return f"{VOCABULARIES}:{quote(vocabulary, safe='')}"


def _header(writer: _Writer, project: Project, licence: str, set_id: str) -> str:
    """Metadata as YAML; JSON strings are YAML, whatever they hold."""
    meta = project.meta
    own = meta.get("source_vocabulary") or {}
    uri = str(own.get("uri") or "")
    web = uri.startswith(("http://", "https://"))
    namespace = f"{uri.rstrip('/#:')}{'/' if web else ':'}" if uri else ""
    curies = {writer.prefix: namespace or system_of(writer.source).namespace}
    curies |= {system.prefix: system.namespace for system in writer.systems.values()}
    curies[VOCABULARIES] = system_of("x").uri.removesuffix("x")
    targets = {writer._vocabulary(Code(name, "")) for name in writer.systems}
    metadata = {
        "sssom_version": "1.1",
        "mapping_set_id": set_id or _set_id(project),
        "mapping_set_title": f"{writer.source}, mapped by medcoder",
        "license": licence,
        "mapping_tool": "medcoder",
        "mapping_tool_version": str(meta.get("medcoder") or ""),
        "mapping_date": to_time(str(meta["created"])).date().isoformat() if "created" in meta
        else "",
        "subject_source": uri if web else _unknown(writer.source),
        "subject_source_version": str(own.get("version") or ""),
        "object_source": targets.pop() if len(targets) == 1 else "",
    }  # fmt: skip
    lines = [f"#{key}: {json.dumps(value)}" for key, value in metadata.items() if value]
    lines += ["#curie_map:"] + [f"#  {json.dumps(k)}: {json.dumps(v)}" for k, v in curies.items()]
    return "\n".join(lines) + "\n"


def _set_id(project: Project) -> str:
    meta = project.meta
    made_of = [meta.get("sha256"), meta.get("column"), (meta.get("terminology") or {})]
    return uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made_of, sort_keys=True)).urn
