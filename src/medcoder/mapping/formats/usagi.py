"""The file that Usagi saves and opens: CSV with a backslash before quotes and backslashes.

Usagi reads line by line and does not know doubled quotes, so RFC 4180 would not do. Columns are
those of its version 1.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from medcoder.errors import InputError
from medcoder.files import replacing
from medcoder.mapping.columns import said
from medcoder.mapping.formats import HISTORY, Cells, Format, Seen, many, terms
from medcoder.mapping.formats.imported import (
    Record,
    Taken,
    Terminology,
    by_column,
    one_line_end,
    take,
)
from medcoder.mapping.formats.omop import NONE, Concept, Concepts, concepts_for, find_ids
from medcoder.mapping.formats.systems import EQUIVALENCE_WORDS, from_time, from_usagi, to_time
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import Target, TermMapping
from medcoder.tables.text import read_text
from medcoder.tables.write import plain
from medcoder.types import Code, Match, Progress

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
    """Write a line for each source term; a term to be reviewed comes with its first candidate.

    concepts: a CONCEPT.csv; needed unless the terminology is one of OMOP
    missing_ok: let targets that the CONCEPT table does not have become 0
    """
    lookup, cell, seen = concepts_for(project, concepts), Cells(), Seen()
    meta = project.meta
    info = ([LANGUAGE] if meta.get("language") else []) + list(meta.get("context") or {})
    created = _milliseconds(str(meta.get("created") or "1970-01-01T00:00:00Z"))
    other = returns = 0
    with replacing(path) as partial:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            names = [*SOURCE, *(ADD_INFO + name for name in info), *REST]
            stream.write(_line([cell(name) for name in names]))
            for mapping in terms(project, progress):
                seen(mapping)
                context = {LANGUAGE: mapping.row.language, **mapping.row.context}
                extra = [context.get(name, "") for name in info]
                # Known only by the id: other candidates.
                other += len(mapping.candidates) > 1
                offered = _offered(mapping, lookup)
                for record in mapping.records():
                    values = _values(record, lookup, offered, created)
                    values = [cell(value) for value in [*values[:4], *extra, *values[4:]]]
                    returns += sum("\r" in value for value in values)
                    stream.write(_line(values))
        notes = lookup.check(concepts or "the terminology", missing_ok=missing_ok)
    notes.append(HISTORY)
    if other:
        notes.append(
            f"of the candidates of {many(other, 'term')} only the concept ids are in the file"
        )
    if returns:
        notes.append(f"carriage returns became line feeds in {many(returns, 'cell')}")
    notes += seen.flagged("with the reason in the comment")
    how = "a line for each, with the text of its part in the comment"
    notes += seen.split(how, offered=True)
    return notes + cell.notes()


def _find(candidate: Match, lookup: Concepts) -> Concept | None:
    return lookup.find(Target(candidate.concept, candidate.name, candidate.codes))


def _offered(mapping: TermMapping, lookup: Concepts) -> str:
    """The ids of all candidates: they tell Usagi which lines are of one term, so all have them."""
    found = (_find(candidate, lookup) for candidate in mapping.candidates)
    return ";".join(dict.fromkeys(str(concept.id) for concept in found if concept))


def _comment(mapping: TermMapping) -> str:
    """The note of a decision; where there is none, what the machine says."""
    if mapping.decision is not None:
        return mapping.decision.note
    part = f"part: {mapping.part.text}" if mapping.part else ""
    return "; ".join(filter(None, (part, said(mapping), mapping.review)))


def _values(mapping: TermMapping, lookup: Concepts, offered: str, created: int) -> list[str]:
    row, decision, target = mapping.row, mapping.decision, mapping.target
    concept = lookup.of(target)
    if mapping.status == "review":
        concept = _find(mapping.candidates[0], lookup) or concept
    status = STATUS[mapping.status]
    if mapping.part is not None and mapping.status == "auto":
        status = "AUTO_MAPPED"
    comment = _comment(mapping)
    if mapping.flag:
        comment = f"{comment} [flagged: {mapping.flag}]".strip()
    made = _milliseconds(decision.when) if decision else created
    return [
        row.code,
        row.text,
        str(row.count),
        offered,
        f"{mapping.confidence:.4f}",
        status,
        EQUIVALENCE_WORDS[decision.equivalence].usagi if decision else "UNREVIEWED",
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
    value = one_line_end(value)
    made = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{made}"' if '"' in value or "," in value else made


NEEDED = ("sourceCode", "sourceName", "mappingStatus", "conceptId")
DECIDED = ("APPROVED", "FLAGGED")
STATUSES = (*DECIDED, "UNCHECKED", "AUTO_MAPPED", "AUTO_MAPPED_TO_1", "INVALID_TARGET", "IGNORED")
FLAGGED = "flagged in Usagi"
# A field in quotes, in which a backslash or another quote stands before a quote, or a bare field.
_FIELD = re.compile(r'(?:"((?:[^"\\]|\\.|"")*)"|((?:[^,\\\r\n"]|\\.)*))(,|\r?\n|\Z)', re.DOTALL)
_ESCAPE = re.compile(r'\\(.)|""', re.DOTALL)
_REASON = re.compile(r"(.*?) ?\[flagged: (.*)\]", re.DOTALL)


def load(
    project: Project,
    path: Path,
    *,
    concepts: Path | None = None,
    kg: Terminology | None = None,
    who: str = "Usagi",
    overwrite: bool = False,
) -> Taken:
    """Take over what is APPROVED or FLAGGED.

    concepts: a CONCEPT.csv, to find concepts by vocabulary and code in a terminology other than
        OMOP's
    kg: the terminology, to look up targets that are no candidates
    who: who decided, where the file does not say
    overwrite: replace other decisions of the project
    """
    taken = Taken()
    rows = list(read(path))
    ids = {_number(path, row, fields, "conceptId") for row, fields in rows}
    known = find_ids(Path(concepts), ids - {0}) if concepts is not None else {}
    records, further = [], 0
    for _, some in groupby(rows, key=lambda row: _source(row[1])):
        group = list(some)
        row, fields = group[0]
        status = fields["mappingStatus"].strip().upper()
        if status not in STATUSES:
            raise InputError(
                "there is no such mappingStatus",
                file=path,
                row=row,
                values=repr(status),
                remedy=f"There are: {', '.join(STATUSES)}",
            )
        if status not in DECIDED:
            taken.undecided += 1
            continue
        record = _record(path, row, fields, {n: code for n, (_, code) in known.items()}, who)
        extra = [_further(other) for _, other in group[1:]]
        further += bool(extra)
        note = "; ".join(filter(None, [record.note, *extra]))
        records.append(Record(**{**vars(record), "note": note}))
    if further:
        taken.notes.append(
            f"{many(further, 'term')} with several targets: the first was taken, the others are in "
            "the note"
        )
    return take(project, records, taken, kg=kg, overwrite=overwrite)


def _record(
    path: Path, row: int, fields: dict[str, str], known: dict[int, Code], who: str
) -> Record:
    equivalence = from_usagi(fields.get("equivalence", ""))
    if equivalence is None:
        raise InputError(
            "there is no such equivalence",
            values=repr(fields["equivalence"]), file=path, row=row,
            remedy="Usagi has EQUAL, EQUIVALENT, WIDER, NARROWER, INEXACT, UNMATCHED, UNREVIEWED",
        )  # fmt: skip
    number = _number(path, row, fields, "conceptId")
    note, flag = fields.get("comment", ""), ""
    if fields["mappingStatus"].strip().upper() == "FLAGGED":
        marked = _REASON.fullmatch(note)
        note, flag = (marked[1], marked[2]) if marked else (note, FLAGGED)
    when = _number(path, row, fields, "statusSetOn")
    codes = (Code("OMOP", str(number)), *([known[number]] if number in known else []))
    code = fields["sourceCode"]
    return Record(
        row=row,
        text=fields["sourceName"],
        sources=(code,) if code else (),
        context={
            name.removeprefix(ADD_INFO): value
            for name, value in fields.items()
            if name.startswith(ADD_INFO)
        },
        name=fields.get("conceptName", ""),
        codes=codes if number else (),
        equivalence=equivalence if number else "no match",
        who=fields.get("statusSetBy", "").strip() or who,
        when=from_time(datetime.fromtimestamp(when / 1000, UTC)) if when else None,
        note=note,
        flag=flag,
    )


def read(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by column, with their number in the file; the header is row 1."""
    text = one_line_end(read_text(path))
    if not text:
        raise InputError("the file is empty", file=path, remedy="Check the path")
    rows = ((row, fields) for row, fields in _rows(path, text) if row == 1 or fields != [""])
    return by_column(path, rows, NEEDED)


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    position, row = 0, 1
    fields: list[str] = []
    while position < len(text):
        match = _FIELD.match(text, position)
        if match is None:
            raise InputError(
                "a quote is not closed, or stands inside a field without quotes",
                file=path,
                row=row,
                remedy="Open the file in Usagi and save it again",
            )
        quoted, bare, end = match.groups()
        fields.append(plain(_unescape(quoted if quoted is not None else bare)))
        position = match.end()
        if end != ",":
            yield row, fields
            row, fields = row + 1, []
    if fields:  # the file ends with a comma
        yield row, [*fields, ""]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: {None: '"', "n": "\n"}.get(match[1], match[1]) or "", text)


def _source(fields: dict[str, str]) -> tuple[str, ...]:
    """What tells a source term from the next, as in Usagi; and its context."""
    info = (value for name, value in fields.items() if name.startswith(ADD_INFO))
    return fields["sourceCode"], fields["sourceName"], *info


def _further(fields: dict[str, str]) -> str:
    kind = fields.get("mappingType", "MAPS_TO")
    return f"also {fields['conceptId']} {fields.get('conceptName', '')} ({kind})"


def _number(path: Path, row: int, fields: dict[str, str], name: str) -> int:
    value = fields.get(name, "").strip() or "0"
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise InputError(f"{name} is not a whole number", file=path, row=row, values=repr(value))
    return int(value)


FORMAT = Format(ending=".usagi.csv", export=export, load=load)
