"""What a table is mapped by: its columns and the options of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from medcoder.errors import InputError, UsageError
from medcoder.mapping.base import ROLES, Role
from medcoder.tables import Table

_SAME = {  # what must be as it was to go on with a project, and what it is called
    "sha256": "the input has changed",
    "column": "it maps the column {old!r}, not {new!r}",
    "code": "its column of codes is {old!r}, not {new!r}",
    "count": "its column of counts is {old!r}, not {new!r}",
    "language": "its column of languages is {old!r}, not {new!r}",
    "context": "its context columns are {old}, not {new}",
    "top": "it keeps {old} candidates a row, not {new}",
    "vocabularies": "it is restricted to the vocabularies {old}, not {new}",
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

    def __post_init__(self) -> None:
        if not 0.5 <= self.precision < 1:
            raise UsageError(f"precision is {self.precision}: it must be at least 0.5 and below 1")
        if not 1 <= self.top <= 100:
            raise UsageError(f"top is {self.top}: it must be between 1 and 100")
        for column, role in self.context.items():
            if role not in ROLES:
                raise UsageError(
                    f"context {column}={role}: a column can be {', '.join(ROLES[:-1])} or "
                    f"{ROLES[-1]}"
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
        }


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Places of the columns in a row."""

    text: int
    code: int | None
    count: int | None
    language: int | None
    context: tuple[tuple[int, str, Role], ...]  # place, name, role

    @classmethod
    def of(cls, table: Table, settings: Settings) -> Columns:
        """Where they are; one that is not there is an error that lists those that are."""

        def optional(name: str) -> int | None:
            return _place(table, name) if name else None

        return cls(
            text=_place(table, settings.column),
            code=optional(settings.code),
            count=optional(settings.count),
            language=optional(settings.language),
            context=tuple(
                (_place(table, name), name, role) for name, role in sorted(settings.context.items())
            ),
        )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Why a project is not of these settings, in words."""
    return [
        words.format(old=old.get(key), new=new.get(key))
        for key, words in _SAME.items()
        if old.get(key) != new.get(key)
    ]


def _place(table: Table, name: str) -> int:
    places = [place for place, column in enumerate(table.header) if column == name]
    if len(places) == 1:
        return places[0]
    file, there = table.name or None, ", ".join(map(repr, table.header))
    if places:
        remedy = "Give each column a name of its own"
        raise InputError(f"{len(places)} columns are called {name!r}", file=file, remedy=remedy)
    near = get_close_matches(name, table.header, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    separated: str = getattr(table, "hint", str)()
    remedy = f"{hint}There are: {there}" + (f". {separated}" if separated else "")
    raise InputError(f"no column is called {name!r}", file=file, remedy=remedy)
