"""What a project file holds, read as what a stranger wrote.

The rules of the tables are rules of whoever made them, so nothing in the file is believed: it has
our tables and nothing else that runs, and every value is checked where it is read.
"""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn

from medcoder.errors import ArtefactError
from medcoder.kg.masks import TARGETS
from medcoder.mapping.project.records import PARTS, RECALIBRATION, ROLES, Part, Said
from medcoder.types import Attribute, Code, Span

LONGEST = 1 << 26  # bytes of a value
INPUTS = ("csv", "tsv", "frame", "parquet", "xlsx")
_MOST = 1 << 53  # rows, counts and versions
_TOP = 10_000  # candidates of a row
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,39}")
# What may run, or look elsewhere, when a table is read or written.
_RUNS = re.compile(r"\b(CHECK|GENERATED|AS|COLLATE|USING|MATCH|CONFLICT)\b", re.IGNORECASE)
_QUOTED = re.compile(r"--[^\n]*|'(?:[^']|'')*'")


class Strange(Exception):
    """A value that a project cannot hold: in which column of which entry."""

    def __init__(self, column: str, key: object, value: object) -> None:
        super().__init__(column, key, value)
        self.place = f"{column} of {key!r}"[:200]
        self.value = repr(value)[:100]


def strange(error: Strange, file: Path) -> ArtefactError:
    return ArtefactError(
        "the project holds a value that it cannot hold",
        where=file,
        values=f"{error.place}: {error.value}",
        remedy="Take it from a backup, or from whoever made it",
    )


# The file


def check_beside(file: Path) -> None:
    """Whether the file and what SQLite writes beside it are plain files: no links to elsewhere."""
    for path in (file, *(file.with_name(f"{file.name}-{end}") for end in _BESIDE)):
        try:
            mode = path.lstat().st_mode
        except OSError:  # not there
            continue
        if stat.S_ISLNK(mode) and path == file:  # the user's own
            continue
        if not stat.S_ISREG(mode):
            raise ArtefactError(
                "it is not a file", where=path, remedy="Copy the project without links"
            )


_BESIDE = ("wal", "shm", "journal")


def distrust(base: sqlite3.Connection) -> None:
    """Let nothing in the file run, and no page or value be larger than it can be."""
    base.execute("PRAGMA trusted_schema = OFF")
    base.execute("PRAGMA cell_size_check = ON")
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)


def check_schema(base: sqlite3.Connection, file: Path, tables: str) -> None:
    """Whether the file has our tables and indexes only: no view, trigger or computed column."""
    known = _statements(tables)
    for kind, name, sql in base.execute("SELECT type, name, sql FROM sqlite_schema"):
        if kind == "table" and (name in known or name == "sqlite_sequence"):
            fine = not _RUNS.search(_QUOTED.sub("", sql or ""))
        else:  # SQLite's own indexes have no statement
            fine = kind == "index" and (sql is None or known.get(name) == _plain(sql))
        if not fine:
            raise ArtefactError(
                "the project holds something that no project has",
                where=file,
                values=f"{kind} {name!r}"[:100],
                remedy="Do not use it: somebody may have put it there to change your data",
            )


@cache
def _statements(tables: str) -> dict[str, str]:
    """Statements by the name of the table or the index."""
    made = [_plain(statement) for statement in tables.split(";\n") if statement.strip()]
    return {statement.split()[2]: statement for statement in made}


def _plain(sql: str) -> str:
    return " ".join(sql.rstrip("; \n").split())


# Values


def parsed(stored: object, kind: type, column: str, key: object) -> Any:
    """The JSON of a cell, which must be of this kind."""
    try:
        value = json.loads(stored, parse_constant=_no_number)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        raise Strange(column, key, stored) from None
    if not isinstance(value, kind):
        raise Strange(column, key, stored)
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def texts(values: tuple[object, ...], columns: str, key: object) -> None:
    """Whether all are strings; `columns` are their names, with spaces between."""
    for value, column in zip(values, columns.split(), strict=True):
        if type(value) is not str:
            raise Strange(column, key, value)


def wholes(values: tuple[object, ...], columns: str, key: object) -> None:
    """Whether all are whole numbers that can be counted to."""
    for value, column in zip(values, columns.split(), strict=True):
        if type(value) is not int or not 0 <= value <= _MOST:
            raise Strange(column, key, value)


def whole(value: object, column: str, key: object = "") -> int:
    """A whole number that can be counted to."""
    wholes((value,), column, key)
    return value  # type: ignore[return-value]


def is_share(value: object) -> bool:
    """Whether it is a probability."""
    return isinstance(value, (int, float)) and 0 <= value <= 1


def is_number(value: object) -> bool:
    """Whether it is finite."""
    return isinstance(value, (int, float)) and isfinite(value)


def is_time(value: object) -> bool:
    """Whether it is an ISO time of this age."""
    try:
        return isinstance(value, str) and 1900 <= datetime.fromisoformat(value).year < 2900
    except ValueError:
        return False


def one_of(value: object, known: Collection[object], column: str, key: object) -> None:
    if type(value) is not str or value not in known:
        raise Strange(column, key, value)


def word(value: object, column: str, key: object) -> None:
    """Whether it is the name of a stage: a new one may have come, or an old one gone."""
    if type(value) is not str or not _WORD.fullmatch(value):
        raise Strange(column, key, value)


def codes(stored: object, key: object) -> tuple[Code, ...]:
    pairs = parsed(stored, list, "codes", key)
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(p) is str for p in pair)):
            raise Strange("codes", key, stored)
    return tuple(Code(*pair) for pair in pairs)


def attributes(stored: object, key: object) -> tuple[Attribute, ...]:
    """What was taken off a string, of which new kinds may have come."""
    triples = parsed(stored, list, "attributes", key)
    for triple in triples:
        if not (_words(triple) and len(triple) == len(Attribute._fields)):
            raise Strange("attributes", key, stored)
        word(triple[0], "attributes", key)
    return tuple(Attribute(*triple) for triple in triples)


def words(stored: object, column: str, key: object) -> tuple[str, ...]:
    """A list of strings."""
    found = parsed(stored, list, column, key)
    if not _words(found):
        raise Strange(column, key, stored)
    return tuple(found)


def span(stored: object, key: object) -> Span | None:
    """Where something is in a text; None: it is all of it."""
    return None if stored is None else _span(parsed(stored, list, "span", key), key)


def _span(value: object, key: object) -> Span:
    if not (isinstance(value, list) and len(value) == 2 and all(map(_count, value))):
        raise Strange("span", key, value)
    start, end = value
    if not start < end:
        raise Strange("span", key, value)
    return start, end


def said(stored: object, key: object) -> Said:
    """What the machine said of a string."""
    value = parsed(stored, dict, "said", key)
    reason, steps, parts = value.get("reason", ""), value.get("steps", []), value.get("parts", [])
    if not (type(reason) is str and _words(steps) and isinstance(parts, list)):
        raise Strange("said", key, stored)
    return Said(reason, tuple(steps), tuple(_part(part, key) for part in parts))


def _part(value: object, key: object) -> Part:
    if not (isinstance(value, dict) and value.keys() == {*Part._fields}):
        raise Strange("said", key, value)
    part = Part(**value)
    texts((part.text, part.reason, part.review), "text reason review", key)
    wholes((part.candidates,), "candidates", key)
    one_of(part.status, PARTS, "status", key)
    if not is_share(part.confidence):
        raise Strange("confidence", key, part.confidence)
    return part._replace(span=_span(part.span, key))


def was(stored: object, key: object) -> tuple[tuple[str, str], ...]:
    """Ids and names of what a string was mapped to."""
    pairs = parsed(stored, list, "was", key)
    if not all(_words(pair) and len(pair) == 2 for pair in pairs):
        raise Strange("was", key, stored)
    return tuple((concept, name) for concept, name in pairs)


def fields(stored: object, key: object) -> tuple[str, ...]:
    """All cells of a row."""
    cells = parsed(stored, list, "fields", key)
    if not all(type(cell) is str for cell in cells):
        raise Strange("fields", key, stored)
    return tuple(cells)


def scope(value: object) -> dict[str, list[str]]:
    """What restricts the candidates of a string: names by role."""
    only: dict[str, list[str]] = parsed(value, dict, "value", "scopes")
    if not all(role in ROLES and _words(names) for role, names in only.items()):
        raise Strange("value", "scopes", value)
    return only


# Meta data

Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    return lambda value: value is None or type(value) in kinds


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _named(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _none_or(check: Check) -> Check:
    return lambda value: value is None or check(value)


_TEXT = _is(str)
_STEEP = 100.0  # that neither number of a recalibration is beyond


def _recalibration(value: Any) -> bool:
    """Whether it is one: two numbers, and what they were fitted on and gained."""
    if not isinstance(value, dict) or not value.keys() >= {*RECALIBRATION}:
        return False
    numbers = value["intercept"], value["slope"]
    before_and_after = [value[name] for name in ("log_loss", "calibration_error", "threshold")]
    return (
        all(type(number) in (int, float) and abs(number) <= _STEEP for number in numbers)
        and value["slope"] > 0
        and type(value["who"]) is str
        and is_time(value["when"])
        and _count(value["decisions"])
        and _count(value["right"])
        and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(end is None or (is_number(end) and end >= 0) for end in pair)
            for pair in before_and_after
        )
    )


_META: dict[str, Check] = {
    **dict.fromkeys(
        ("file", "sha256", "column", "code", "count", "language", "medcoder", "delimiter"), _TEXT
    ),
    **dict.fromkeys(("created", "updated"), _none_or(is_time)),
    **dict.fromkeys(("bad_rows", "rows", "run", "settled", "refreshed"), _none_or(_count)),
    "top": lambda value: _count(value) and value <= _TOP,
    **dict.fromkeys(("complete", "marked", "read", "split"), _is(bool, int)),
    **dict.fromkeys(("precision", "threshold", "threshold_before"), _none_or(is_share)),
    "targets": lambda value: value in TARGETS,
    "format": lambda value: value in INPUTS,
    "context": _named(lambda role: role in ROLES),
    "source_vocabulary": _none_or(_named(_TEXT)),
    "terminology": _none_or(_named(lambda value: _TEXT(value) or _named(_TEXT)(value))),
    "model": _none_or(_named(_TEXT)),
    "vocabularies": _none_or(_words),
    "header": _words,
    "expected": _none_or(_named(_none_or(is_share))),
    "unknown_context": _none_or(_named(_named(_count))),
    "timing": _none_or(_named(lambda value: is_number(value) and value >= 0)),
    "written": _none_or(_named(lambda value: _TEXT(value) or _count(value))),
    "recalibrations": lambda value: isinstance(value, list) and all(map(_recalibration, value)),
}


def meta(entries: Mapping[str, object]) -> dict[str, Any]:
    """The meta data, of which what is known is of its kind."""
    values: dict[str, Any] = {}
    for key, stored in entries.items():
        texts((key,), "key", "meta")
        values[key] = parsed(stored, object, "value", key)
        check = _META.get(key)
        if check is not None and not check(values[key]):
            raise Strange("value", key, stored)
    if len(str(values.get("delimiter", ""))) > 1:
        raise Strange("value", "delimiter", values["delimiter"])
    return values
