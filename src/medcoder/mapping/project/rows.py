"""Rows of a table into the project file: which columns they come from, what terms they make."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from medcoder.errors import InputError, UsageError
from medcoder.kg.masks import TARGETS
from medcoder.mapping.lookup import Mapper
from medcoder.mapping.project.decisions import as_text
from medcoder.mapping.project.records import ROLES, UNSAID, Role
from medcoder.tables import Row, Table
from medcoder.tables.text import missing_columns
from medcoder.text import clean, language_tag

_SAME = {  # what must be as it was to go on with a project, and what it is called
    "sha256": "the input has changed",
    "column": "it maps the column {old!r}, not {new!r}",
    "code": "its column of codes is {old!r}, not {new!r}",
    "count": "its column of counts is {old!r}, not {new!r}",
    "language": "its column of languages is {old!r}, not {new!r}",
    "context": "its context columns are {old}, not {new}",
    "top": "it keeps {old} candidates a row, not {new}",
    "vocabularies": "it is restricted to the vocabularies {old}, not {new}",
    "targets": "its targets are {old!r}, not {new!r}",
    "split": "whether several things in a cell are answered one by one is {old}, not {new}",
    "terminology": "the terminology or your own terms have changed",
    "model": "the model has changed",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Columns of the input and options."""

    column: str  # holds the text
    code: str = ""  # holds the local code
    count: str = ""  # holds how often the row occurs
    language: str = ""  # holds the language of the text; recorded, and restricts nothing
    context: Mapping[str, Role] = field(default_factory=dict)  # role by column
    top: int = 5  # candidates a row
    vocabularies: tuple[str, ...] = ()  # only concepts with a code in one of these; (): any
    precision: float = 0.98  # promised of automatic mappings
    targets: str = "any"  # one of TARGETS: which concepts may be answered with
    split: bool | None = None  # several things in a cell are answered one by one; None: as before

    def __post_init__(self) -> None:
        if not 0.5 <= self.precision < 1:
            raise UsageError("precision must be at least 0.5 and below 1", values=self.precision)
        if not 1 <= self.top <= 100:
            raise UsageError("top must be between 1 and 100", values=self.top)
        if self.targets not in TARGETS:
            raise UsageError(
                "there are no such targets",
                values=repr(self.targets),
                remedy=f"They can be {', '.join(TARGETS[:-1])} or {TARGETS[-1]}",
            )
        for column, role in self.context.items():
            if role not in ROLES:
                raise UsageError(
                    "there is no such role of a context column",
                    values=f"{column}={role}",
                    remedy=f"A column can be {', '.join(ROLES[:-1])} or {ROLES[-1]}",
                )

    def as_meta(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "code": self.code,
            "count": self.count,
            "language": self.language,
            "context": dict(self.context),
            "top": self.top,
            "vocabularies": sorted(self.vocabularies),
            "targets": self.targets,
            "split": self.split,
        }


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Positions of the columns in a row."""

    text: int
    code: int | None
    count: int | None
    language: int | None
    context: tuple[tuple[int, str, Role], ...]  # position, name, role

    @classmethod
    def of(cls, table: Table, settings: Settings) -> Columns:
        """Where they are; a missing column is an error that lists those there are."""

        def optional(name: str) -> int | None:
            return _position(table, name) if name else None

        return cls(
            text=_position(table, settings.column),
            code=optional(settings.code),
            count=optional(settings.count),
            language=optional(settings.language),
            context=tuple(
                (_position(table, name), name, role)
                for name, role in sorted(settings.context.items())
            ),
        )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Why a project is not of these settings, in words."""
    old = UNSAID | dict(old)
    return [
        words.format(old=old.get(key), new=new.get(key))
        for key, words in _SAME.items()
        if old.get(key) != new.get(key)
    ]


def _position(table: Table, name: str) -> int:
    positions = [position for position, column in enumerate(table.header) if column == name]
    if len(positions) == 1:
        return positions[0]
    file = table.name or None
    if positions:
        remedy = "Give each column a name of its own"
        values = f"{len(positions)} are called {name!r}"
        raise InputError("several columns have one name", file=file, values=values, remedy=remedy)
    separated: str = getattr(table, "hint", str)()
    raise missing_columns([name], table.header, file=file, row=None, remedy=separated)


_KEPT = 50_000  # terms whose numbers are at hand
_VALUES = 50  # unknown values of a context column that are listed
_MOST = 10**12  # that a count may be: sums of them fit the file
OTHERS = "(others)"

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(OrderedDict[K, V], Generic[K, V]):
    """The last few entries that were asked for."""

    def recall(self, key: K) -> V | None:
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]

    def keep(self, key: K, value: V) -> V:
        self[key] = value
        if len(self) > _KEPT:
            self.popitem(last=False)
        return value


class Scope(NamedTuple):
    """What the context of a row makes of it."""

    number: int  # of the restriction
    hint: str  # re-ranks
    unknown: tuple[tuple[str, str], ...]  # columns and values that say nothing to us


class Adder:
    """Adds rows; distinct terms and strings get their numbers from the file."""

    def __init__(
        self,
        base: sqlite3.Connection,
        columns: Columns,
        settings: Settings,
        mapper: Mapper,
        *,
        file: str | None,
        unknown: dict[str, dict[str, int]],
    ) -> None:
        self._base, self._columns, self._settings = base, columns, settings
        self._mapper, self._file = mapper, file
        self._terms: Recent[tuple[str, ...], int] = Recent()
        self._scopes: Recent[tuple[str, ...], Scope] = Recent()
        self.unknown = unknown  # {column: {value: rows}}

    def add(self, first: int, rows: Sequence[Row]) -> int:
        """Add rows, numbered from `first`; says how many had a wrong number of fields."""
        stored = []
        sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        bad = 0
        for number, row in enumerate(rows, first):
            term = self._term(number, row)
            count = self._count(number, row)
            stored.append((number, term, count, json.dumps(row.fields, ensure_ascii=False)))
            sums[term][0] += 1
            sums[term][1] += count
            bad += not row.whole
        self._base.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", stored)
        self._base.executemany(
            "UPDATE terms SET rows = rows + ?, count = count + ? WHERE id = ?",
            [(*sum_, term) for term, sum_ in sums.items()],
        )
        return bad

    def _term(self, number: int, row: Row) -> int:
        columns, fields = self._columns, row.fields
        # The fields of a broken row may stand in the wrong columns.
        text = as_text(fields[columns.text]) if row.whole else ""
        code = fields[columns.code].strip() if columns.code is not None else ""
        language = fields[columns.language].strip() if columns.language is not None else ""
        language = language_tag(language)
        context = tuple(clean(fields[position]) for position, _, _ in columns.context)
        scope = self._scope(context)
        for column, value in scope.unknown:
            _count_value(self.unknown.setdefault(column, {}), value)
        key = (text, code, language, *context)
        term = self._terms.recall(key)
        if term is not None:
            return term
        named = {
            name: value
            for (_, name, _), value in zip(columns.context, context, strict=True)
            if value
        }
        stored = json.dumps(named, ensure_ascii=False, sort_keys=True)
        string = self._number("strings", text=text, hint=scope.hint, scope=scope.number)
        term = self._number(
            "terms", text=text, code=code, language=language, context=stored,
            extra={"string": string, "first": number},
        )  # fmt: skip
        return self._terms.keep(key, term)

    def _scope(self, context: tuple[str, ...]) -> Scope:
        scope = self._scopes.recall(context)
        if scope is not None:
            return scope
        only: dict[str, list[str]] = {"vocabulary": list(self._settings.vocabularies)}
        hints, unknown = [], []
        for (_, column, role), value in zip(self._columns.context, context, strict=True):
            if not value:
                continue
            if role == "hint":
                hints.append(value)
                continue
            known = self._known(role, value)
            if known:
                only[role] = sorted(known)
            else:
                unknown.append((column, value))
        value = json.dumps({role: names for role, names in sorted(only.items()) if names})
        scope = Scope(self._number("scopes", value=value), " ".join(hints), tuple(unknown))
        return self._scopes.keep(context, scope)

    def _known(self, role: Role, value: str) -> list[str]:
        """The value, or those of its parts between | and ; that there are."""
        if self._mapper.knows(role, value):
            return [value]
        parts = (part.strip() for part in value.replace(";", "|").split("|"))
        return [part for part in parts if part and self._mapper.knows(role, part)]

    def _number(self, table: str, *, extra: dict[str, Any] | None = None, **key: Any) -> int:
        """The number of an entry, which is added if it is new."""
        where = " AND ".join(f"{name} = ?" for name in key)
        rows = self._base.execute(f"SELECT id FROM {table} WHERE {where}", [*key.values()])
        row = rows.fetchone()
        if row is not None:
            return int(row[0])
        values = key | (extra or {})
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        added = self._base.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks})", [*values.values()]
        )
        assert added.lastrowid is not None
        return added.lastrowid

    def _count(self, number: int, row: Row) -> int:
        position = self._columns.count
        text = row.fields[position].strip() if position is not None and row.whole else ""
        if not text:
            return 1
        try:
            count = float(text.replace(",", "").replace("_", "x"))
            if not 0 <= count <= _MOST or not count.is_integer():
                raise ValueError
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"the count of data row {number:,} is not a whole number",
                file=self._file, values=repr(text),
                remedy="Counts must be whole numbers, or empty for 1",
            ) from error  # fmt: skip
        return int(count)


def _count_value(values: dict[str, int], value: str) -> None:
    if value not in values and len(values) >= _VALUES:
        value = OTHERS
    values[value] = values.get(value, 0) + 1
