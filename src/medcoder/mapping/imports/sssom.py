"""Decisions from an SSSOM table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from medcoder.errors import InputError
from medcoder.mapping.equivalence import NO_TERM_FOUND, from_sssom
from medcoder.mapping.exports.common import from_time, many, plain, to_time
from medcoder.mapping.exports.sssom import MANUAL
from medcoder.mapping.imports.base import (
    Record,
    Taken,
    Terminology,
    check_columns,
    check_fields,
    read_text,
    take,
)
from medcoder.mapping.store import Project
from medcoder.mapping.systems import URN
from medcoder.types import Code

NEEDED = ("predicate_id", "object_id", "mapping_justification")
CONTEXT = "context."


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
    automatic: take those that a machine made as well
    who: the name for decisions that have none
    overwrite: replace decisions of the project that are others
    """
    taken, records, skipped, negated = Taken(), [], 0, 0
    metadata, rows = read(path)
    for row, fields in rows:
        if fields["mapping_justification"] != MANUAL and not automatic:
            taken.undecided += 1
        elif fields.get("predicate_modifier"):
            negated += 1
        elif (record := _record(path, row, fields, metadata, who)) is None:
            skipped += 1
        else:
            records.append(record)
    if negated:
        taken.notes.append(f"{many(negated, 'record')} left out: it says what is no mapping")
    if skipped:
        taken.notes.append(f"{many(skipped, 'record')} left out: its predicate is not one of ours")
    return take(project, _merged(records), taken, kg=kg, overwrite=overwrite)


def read(path: Path) -> tuple[dict[str, Any], Iterator[tuple[int, dict[str, str]]]]:
    """The metadata, and rows by column with their number in the file."""
    lines = read_text(path).splitlines(keepends=True)
    count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    try:
        metadata = yaml.safe_load("".join(line.lstrip("#") for line in lines[:count])) or {}
    except yaml.YAMLError as error:
        raise InputError(
            f"the metadata is no YAML: {str(error).splitlines()[0]}", file=path, row=1
        ) from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("curie_map") or {}, dict):
        raise InputError("the metadata is no list of names and values", file=path, row=1)
    return metadata, _rows(path, lines[count:], count)


def _rows(path: Path, lines: list[str], before: int) -> Iterator[tuple[int, dict[str, str]]]:
    if not lines:
        raise InputError("there is no table", file=path, remedy="Check the path")
    text = io.StringIO("".join(lines), newline="")
    table = csv.reader(text, delimiter="\t" if "\t" in lines[0] else ",", strict=True)
    try:
        header = next(table)
        check_columns(path, before + 1, header, NEEDED)
        if not {"subject_id", "subject_label"} & set(header):
            check_columns(path, before + 1, header, ["subject_id"])
        for fields in table:
            if not fields:
                continue
            row = before + table.line_num
            check_fields(path, row, header, fields)
            yield row, {name: plain(value) for name, value in zip(header, fields, strict=True)}
    except csv.Error as error:
        raise InputError(f"no table: {error}", file=path, row=before + table.line_num) from error


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
    label = fields.get("object_label", "")
    found = fields["object_id"] != NO_TERM_FOUND
    return Record(
        row=row,
        text=text or local,
        sources=sources,
        context=context,
        concept=other.get("concept", ""),
        name=label,
        codes=(_code(fields["object_id"], metadata.get("curie_map") or {}),) if found else (),
        equivalence=equivalence,
        who=unquote(authors).strip() or who,
        when=_when(path, row, fields, other, metadata),
        note=fields.get("comment", ""),
        flag=other.get("flag", ""),
    )


def _code(entity: str, curies: dict[str, str]) -> Code:
    """Vocabulary and code of a CURIE, or of a web address that a prefix of the file stands for."""
    for prefix, namespace in curies.items():
        if entity.startswith(("http:", "https:", "urn:")) and entity.startswith(namespace):
            entity = f"{prefix}:{entity.removeprefix(namespace)}"
    prefix, colon, local = entity.partition(":")
    if not colon:
        return Code("", entity)
    namespace = str(curies.get(prefix, ""))
    vocabulary = unquote(namespace.removeprefix(URN).removesuffix(":"))
    return Code(vocabulary if namespace.startswith(URN) else prefix, unquote(local))


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
            f"{exact or day!r} is no date", file=path, row=row, remedy="Write it as 2026-01-31"
        ) from error


def _other(text: str) -> dict[str, str]:
    """Names and values of the column `other`."""
    pairs = (part.partition("=") for part in re.split(r"\|", text) if "=" in part)
    return {unquote(name): unquote(value) for name, _, value in pairs}


def _merged(records: list[Record]) -> list[Record]:
    """Records that give several codes of one target as one; a second target stays a record."""
    made: dict[tuple[Any, ...], Record] = {}
    for record in records:
        key = (
            record.text, record.sources, tuple(record.context.items()),
            record.concept or record.row, record.equivalence, record.who,
        )  # fmt: skip
        first = made.get(key)
        if first is not None:
            record = Record(**{**vars(first), "codes": (*first.codes, *record.codes)})
        made[key] = record
    return list(made.values())
