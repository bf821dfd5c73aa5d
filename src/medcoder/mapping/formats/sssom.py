"""SSSOM: a TSV of mappings with metadata on top. https://mapping-commons.github.io/sssom/

A term with a local code is a subject with an id; a term without is a literal, as the standard has
it for strings. The column `other` has what a record cannot say otherwise: the time of a decision,
how often a term occurs, its language and context, our id of the concept, and, of one of several
things in a cell, its text (`part`) and place (`span`, as in 5-8).
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from medcoder.errors import InputError
from medcoder.files import replacing
from medcoder.mapping.columns import said
from medcoder.mapping.formats import Cells, Format, Seen, is_unchecked, many, terms
from medcoder.mapping.formats.imported import (
    Record,
    Taken,
    Terminology,
    by_column,
    merged,
    one_line_end,
    take,
)
from medcoder.mapping.formats.systems import (
    EQUIVALENCE_WORDS,
    NO_TERM_FOUND,
    System,
    asked,
    curie,
    from_curie,
    from_sssom,
    from_time,
    justified,
    prefix_of,
    project_urn,
    source_name,
    system_of,
    to_time,
    versions,
    written_codes,
)
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import TermMapping
from medcoder.tables.text import read_text
from medcoder.tables.write import TextWriter, plain
from medcoder.types import Code, Match, Progress

COLUMNS = (
    "subject_id", "subject_label", "subject_type", "predicate_id", "object_id", "object_label",
    "mapping_justification", "author_label", "object_source", "object_source_version",
    "mapping_date", "confidence", "similarity_score", "similarity_measure", "comment", "other",
)  # fmt: skip
LITERAL = "rdfs literal"
MANUAL = "semapv:ManualMappingCuration"
NO_LICENCE = "https://w3id.org/sssom/license/unspecified"
VOCABULARIES = "medcoder"  # prefix for vocabularies that have no web address
BUILT_IN = frozenset({"owl", "rdf", "rdfs", "semapv", "skos", "sssom", VOCABULARIES})
# Readers that use pandas take a cell with any of these words for an empty cell.
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
        self._cell, self._seen, self._nameless, self._codes = Cells("\t"), Seen(), 0, 0

    def write(self, stream: IO[str], project: Project, progress: Progress | None) -> None:
        table = TextWriter(stream, delimiter="\t")
        table.row(COLUMNS)
        for mapping in terms(project, progress):
            self._seen(mapping)
            if is_unchecked(mapping):
                continue
            if not (mapping.row.text or mapping.row.code):
                self._nameless += 1
                continue
            for some in mapping.records():
                for record in self._records(some):
                    table.row([self._cell(record.get(name, "")) for name in COLUMNS])

    def notes(self) -> list[str]:
        notes = [*self._seen.single(), *self._seen.undecided()]
        if self._seen.counts["approved"] or self._seen.counts["flagged"]:
            notes.append("the machine's confidence in decided targets is not in the file")
        notes += self._seen.flagged("with the reason in the column other")
        notes += self._seen.split("a record for each, with the text and the place of its part")
        if self._nameless:
            notes.append(f"terms with neither text nor code, left out: {self._nameless:,}")
        if self._codes:
            notes.append(f"targets with further codes, which are not in the file: {self._codes:,}")
        unknown = sorted(name for name, system in self.systems.items() if not system.known)
        if unknown:
            notes.append(f"no web address is known for {', '.join(unknown)}: a urn stands for it")
        return notes + self._cell.notes()

    def _records(self, mapping: TermMapping) -> list[dict[str, str]]:
        target, common = mapping.target, self._common(mapping)
        if target is None:
            where = list(self._asked or self._versions)  # where there is no such term
            source = self.vocabulary(Code(where[0], "")) if len(where) == 1 else ""
            return [{**common, "object_id": NO_TERM_FOUND, "object_source": source}]
        codes = written_codes(target, self._asked)
        self._codes += len(target.codes) > len(codes)
        return [
            {
                **common,
                "object_id": curie(code),
                "object_label": target.name,
                "object_source": self.vocabulary(code),
                "object_source_version": self._versions.get(code.vocabulary, ""),
            }
            for code in codes
        ]

    def _common(self, mapping: TermMapping) -> dict[str, str]:
        row, decision, target = mapping.row, mapping.decision, mapping.target
        other = {"count": str(row.count)} if row.count != 1 else {}
        other |= {"language": row.language} if row.language else {}
        other |= {f"context.{name}": value for name, value in row.context.items()}
        if target is not None:
            other["concept"] = target.concept
        other |= {"flag": mapping.flag} if mapping.flag else {}
        if mapping.part is not None:
            other["part"] = mapping.part.text
            other["span"] = "-".join(map(str, mapping.part.span))
        record = {"subject_label": row.text}
        literal = not row.code and row.text not in TAKEN_FOR_EMPTY
        record |= {"subject_type": LITERAL} if literal else {}
        if not literal:
            record["subject_id"] = f"{self.prefix}:{quote(row.code or row.text, safe='')}"
        if row.text in TAKEN_FOR_EMPTY:
            other |= {"text": row.text, "code": row.code}
        if decision is not None:
            other["when"] = decision.when
            other |= {"said": words} if (words := said(mapping)) else {}
            other |= {"review": mapping.review} if mapping.review else {}
            record |= {
                "predicate_id": EQUIVALENCE_WORDS[decision.equivalence].sssom,
                "mapping_justification": MANUAL,
                "author_label": escape(decision.who),
                "mapping_date": to_time(decision.when).date().isoformat(),
                "comment": decision.note,
            }
        else:
            record |= self._automatic(mapping.candidates[0])
            record["comment"] = said(mapping)
        record["other"] = "|".join(f"{escape(k)}={escape(v)}" for k, v in other.items())
        return record

    def _automatic(self, match: Match) -> dict[str, str]:
        justification, measure = justified(match.stage)
        record = {
            "predicate_id": EQUIVALENCE_WORDS["equivalent"].sssom,
            "mapping_justification": justification,
            "mapping_date": to_time(self._created).date().isoformat(),
            "confidence": f"{match.confidence:.6g}",
        }
        if measure == "cosine" and match.cosine is not None:
            record["similarity_score"] = f"{min(max(match.cosine, 0.0), 1.0):.6g}"
            record["similarity_measure"] = "cosine"
        return record

    def vocabulary(self, code: Code) -> str:
        system = self.systems.setdefault(code.vocabulary, system_of(code.vocabulary))
        return system.uri if system.known else _unknown(code.vocabulary)


def escape(text: str) -> str:
    """A key or value of `other`: no bar and no equals sign inside.

    >>> escape("a|b=50%")
    'a%7Cb%3D50%25'
    """
    return re.sub(r"[%|=\x00-\x1f]", lambda match: f"%{ord(match[0]):02X}", text)


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
    targets = {writer.vocabulary(Code(name, "")) for name in writer.systems}
    metadata = {
        "sssom_version": "1.1",
        "mapping_set_id": set_id or project_urn(project),
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
    lines += ["#curie_map:", *(f"#  {json.dumps(k)}: {json.dumps(v)}" for k, v in curies.items())]
    return "\n".join(lines) + "\n"


# Columns that a file has; any of several names is enough.
NEEDED = ("predicate_id", "object_id", "mapping_justification", "subject_id|subject_label")
CONTEXT = "context."
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # with their ends


def load(
    project: Project,
    path: Path,
    *,
    kg: Terminology | None = None,
    automatic: bool = False,
    who: str = "SSSOM",
    overwrite: bool = False,
) -> Taken:
    """Take over mappings that people made.

    kg: the terminology, to look up targets that are no candidates
    automatic: take mappings of machines as well
    who: who decided, where the file does not say
    overwrite: replace other decisions of the project
    """
    taken, records, left_out = Taken(), [], Counter[str]()
    metadata, rows = read(path)
    for row, fields in rows:
        if fields["mapping_justification"] != MANUAL and not automatic:
            taken.undecided += 1
        elif fields.get("predicate_modifier"):
            left_out["it says what is no mapping"] += 1
        elif "part" in _other(fields.get("other", "")):
            left_out["it is of a part of a cell, and a decision is of all of it"] += 1
        elif (record := _record(path, row, fields, metadata, who)) is None:
            left_out["its predicate is not one of ours"] += 1
        else:
            records.append(record)
    for why, count in left_out.items():
        taken.notes.append(f"{many(count, 'record')} left out: {why}")
    return take(project, merged(records), taken, kg=kg, overwrite=overwrite)


def read(path: Path) -> tuple[dict[str, Any], Iterator[tuple[int, dict[str, str]]]]:
    """The metadata, and rows by column with their number in the file."""
    import yaml

    lines = _LINES.findall(read_text(path))
    if lines and lines[0].endswith(("\r\n", "\r")):  # an editor has changed all ends of lines
        lines = _LINES.findall(one_line_end("".join(lines)))
    count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    try:
        metadata = yaml.safe_load("".join(line.lstrip("#") for line in lines[:count])) or {}
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:
        # Its reader takes dates that are none, endless numbers and deep nesting for YAML.
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            "the metadata is not YAML", file=path, row=1, values=reason,
            remedy="Correct the lines that begin with #",
        ) from error  # fmt: skip
    if not isinstance(metadata, dict) or not isinstance(metadata.get("curie_map") or {}, dict):
        raise InputError("the metadata is not a list of names and values", file=path, row=1)
    return metadata, by_column(path, _rows(path, lines[count:], count), NEEDED)


def _rows(path: Path, lines: list[str], before: int) -> Iterator[tuple[int, list[str]]]:
    if not lines:
        raise InputError("there is no table", file=path, remedy="Check the path")
    text = io.StringIO("".join(lines), newline="")
    table = csv.reader(text, delimiter="\t" if "\t" in lines[0] else ",", strict=True)
    try:
        for fields in table:
            if fields or table.line_num == 1:
                yield before + table.line_num, [plain(field, "\t") for field in fields]
    except csv.Error as error:
        row = before + table.line_num
        raise InputError("not a table", file=path, row=row, values=error) from error


def _record(
    path: Path, row: int, fields: dict[str, str], metadata: dict[str, Any], who: str
) -> Record | None:
    equivalence = from_sssom(fields["predicate_id"], fields["object_id"])
    if equivalence is None:
        return None
    other = _other(fields.get("other", ""))
    text = other.get("text", fields.get("subject_label", ""))
    subject = fields.get("subject_id", "")
    local = unquote(subject.partition(":")[2])
    sources = tuple(dict.fromkeys(filter(None, (local, subject))))
    if "text" in other:
        sources = (other["code"],) if other.get("code") else ()
    context = {
        name.removeprefix(CONTEXT): value
        for name, value in other.items()
        if name.startswith(CONTEXT) or name == "language"
    }
    authors = fields.get("author_label") or fields.get("author_id") or ""
    has_target = fields["object_id"] != NO_TERM_FOUND
    return Record(
        row=row, text=text or local, sources=sources, context=context,
        concept=other.get("concept", ""), name=fields.get("object_label", ""),
        codes=(from_curie(fields["object_id"], metadata.get("curie_map") or {}),) if has_target
        else (),
        equivalence=equivalence,
        who=unquote(authors).strip() or who,
        when=_when(path, row, fields, other, metadata),
        note=fields.get("comment", ""), flag=other.get("flag", ""),
    )  # fmt: skip


def _when(
    path: Path, row: int, fields: dict[str, str], other: dict[str, str], metadata: dict[str, Any]
) -> str | None:
    """The exact time where it is there and of the same day, otherwise the day."""
    day = fields.get("mapping_date") or str(metadata.get("mapping_date") or "")
    exact = other.get("when", "")
    try:
        if exact and (not day or to_time(exact).date() == date.fromisoformat(day)):
            return from_time(to_time(exact))
        return from_time(to_time(day)) if day else None
    except ValueError as error:
        raise InputError(
            "not a date", file=path, row=row, values=repr(exact or day),
            remedy="Write it as 2026-01-31",
        ) from error  # fmt: skip


def _other(text: str) -> dict[str, str]:
    """Names and values of the column `other`."""
    pairs = (part.partition("=") for part in text.split("|") if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in pairs}


FORMAT = Format(ending=".sssom.tsv", export=export, load=load, extra="tables")
