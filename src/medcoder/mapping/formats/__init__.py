"""Formats of others that a mapping project is written to and read from, and their table.

A format is a file with a `FORMAT`, and a line in `FORMATS`:

- `export(project, path, *, progress=None, ...)` writes a file, whole or not at all, and gives
  notes: sentences on what the file does not hold;
- `load(project, path, *, kg=None, ...)` takes decisions over from a file, and gives an account of
  them (`Taken`).

Their keyword-only parameters are the options of the format, their docstrings the help. The command
line and the service read both from here (`options_of`), and list nothing by hand.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from medcoder.errors import MissingExtra, UnknownName, UsageError
from medcoder.mapping.project.records import TermMapping
from medcoder.registry import Registry
from medcoder.tables.write import Guard
from medcoder.types import Progress

if TYPE_CHECKING:
    from medcoder.mapping.formats.imported import Taken
    from medcoder.mapping.project import Project

FORMATS = Registry(
    "format",
    {
        "csv": "medcoder.mapping.formats.table:CSV",
        "fhir": "medcoder.mapping.formats.fhir:FORMAT",
        "omop": "medcoder.mapping.formats.omop:FORMAT",
        "parquet": "medcoder.mapping.formats.table:PARQUET",
        "sssom": "medcoder.mapping.formats.sssom:FORMAT",
        "usagi": "medcoder.mapping.formats.usagi:FORMAT",
        "xlsx": "medcoder.mapping.formats.table:XLSX",
    },
)
Direction = Literal["export", "load"]
OptionType = type[bool] | type[int] | type[float] | type[str] | type[Path]
_TYPES = (bool, int, float, str, Path)
_GIVEN = ("kg", "progress")  # by whoever calls: no options
_WORDS: dict[Direction, str] = {"export": "export", "load": "import"}
_HELP = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a format is written and read; the imports it needs are made when it is used."""

    ending: str  # of the names of its files
    export: Callable[..., list[str]]
    load: Callable[..., Taken] | None = None  # None: it is only written
    extra: str = ""  # of medcoder, that installs what it needs


class Option(NamedTuple):
    """An option of a format, as its function declares it."""

    name: str
    type: OptionType
    default: Any
    help: str
    formats: tuple[str, ...] = ()  # that have it


def format_names(direction: Direction = "export") -> list[str]:
    """Formats that can be written, or read."""
    return sorted(name for name in FORMATS if getattr(FORMATS.load(name), direction) is not None)


def export(project: Project, name: str, path: Path, **options: Any) -> list[str]:
    """Write a project in the format of that name; gives notes on what the file does not hold.

    Options that are None count as not given.
    """
    write = _function(name, "export", options)
    if not project.meta:
        raise UsageError(
            "the project holds no table yet",
            where=project.path.parent,
            remedy="Map one with: medcoder map FILE --out DIR",
        )
    notes: list[str] = write(project, Path(path))
    return notes


def load(project: Project, name: str, path: Path, **options: Any) -> Taken:
    """Take decisions over from a file of that format; options that are None count as not given."""
    taken: Taken = _function(name, "load", options)(project, Path(path))
    return taken


def options_of(function: Callable[..., Any]) -> list[Option]:
    """The options of an export or import, from its signature and its docstring."""
    helps = _helps(inspect.getdoc(function) or "")
    options = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in _GIVEN:
            continue
        options.append(
            Option(name, _type(function, parameter), parameter.default, helps.get(name, ""))
        )
    return options


def all_options(direction: Direction = "export") -> list[Option]:
    """The options of all formats, each once, with the formats that have it."""
    merged: dict[str, Option] = {}
    for name in format_names(direction):
        for option in options_of(getattr(FORMATS.load(name), direction)):
            known = merged.get(option.name, option)
            if known.type is not option.type:
                raise TypeError(f"the option {option.name} is of two types in two formats")
            default = option.default if known.default == option.default else None
            formats = (*known.formats, name)
            merged[option.name] = known._replace(default=default, formats=formats)
    return list(merged.values())


def _function(name: str, direction: Direction, options: dict[str, Any]) -> Callable[..., Any]:
    """The function that writes or reads a format, with its options."""
    format: Format | None = FORMATS.load(name) if name in FORMATS else None
    function = getattr(format, direction) if format else None
    word = _WORDS[direction]
    if format is None or function is None:
        # Registry tells of near names: it is asked with those alone that go this way.
        known = Registry(word, {known: FORMATS[known] for known in format_names(direction)})
        known.load(name)
        raise UnknownName(f"no such {word}", values=repr(name))
    given = {key: value for key, value in options.items() if value is not None}
    _check_options(f"the {word} {name!r}", function, given)

    def call(project: Project, path: Path) -> Any:
        try:
            return function(project, path, **given)
        except ModuleNotFoundError as error:
            if not format.extra or (error.name or "").startswith("medcoder"):
                raise
            raise MissingExtra(
                f"the {word} needs a package that is not installed",
                where=name,
                values=error.name,
                remedy=f"Install it with: pip install 'medcoder[{format.extra}]'",
            ) from error

    return call


def _check_options(what: str, function: Callable[..., Any], given: dict[str, Any]) -> None:
    takes = [option.name for option in options_of(function)]
    accepted = {*takes, *_GIVEN} & set(inspect.signature(function).parameters)
    for name in given:
        if name not in accepted:
            known = ", ".join(takes) or "none"
            raise UsageError(
                "the format has no such option",
                where=what,
                values=repr(name),
                remedy=f"It has: {known}",
            )


def _type(function: Callable[..., Any], parameter: inspect.Parameter) -> OptionType:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = eval(annotation, inspect.unwrap(function).__globals__)
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    if len(kinds) != 1 or kinds[0] not in _TYPES:
        raise TypeError(f"the option {parameter.name} must be a bool, int, float, str or Path")
    kind: OptionType = kinds[0]
    return kind


def _helps(docstring: str) -> dict[str, str]:
    """What a docstring says of its arguments: lines that begin with "name: " and go on indented.

    >>> _helps('Write it.\\n\\nurl: the address\\n    of the map\\nwho, when: of decisions')
    {'url': 'the address of the map', 'who': 'of decisions', 'when': 'of decisions'}
    """
    _, *parts = _HELP.split(docstring)
    return {
        name: " ".join(text.split("\n\n")[0].split())
        for names, text in zip(parts[::2], parts[1::2], strict=True)
        for name in names.split(", ")
    }


# What exports share: progress, cells that were changed, and notes

HISTORY = "the history of decisions is in the project only"
_STEP = 1000  # mappings between two reports


def watched(
    mappings: Iterable[TermMapping], total: int, progress: Progress | None
) -> Iterator[TermMapping]:
    """The mappings, with reports on how many there were."""
    done = 0
    for done, mapping in enumerate(mappings, 1):
        yield mapping
        if progress and done % _STEP == 0:
            progress("writing", done, max(total, done))
    if progress:
        progress("writing", done, max(total, done))


def terms(project: Project, progress: Progress | None = None) -> Iterator[TermMapping]:
    """Every source term once."""
    total = sum(count["terms"] for count in project.counts().values())
    return watched(project.terms(), total, progress)


def rows(project: Project, progress: Progress | None = None) -> Iterator[TermMapping]:
    """Every row."""
    return watched(project.mappings(), len(project), progress)


class Cells(Guard):
    """Text for a table that may be opened in a spreadsheet, with a note on what was changed."""

    def notes(self) -> list[str]:
        if not self.changed:
            return []
        return [
            "cells that would be taken for a formula, with an apostrophe before them: "
            f"{self.changed:,}"
        ]


class Seen:
    """What was met while writing terms, for the notes of formats that hold targets only."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, mapping: TermMapping) -> None:
        self.counts[mapping.status] += 1
        self.counts["candidates"] += len(mapping.candidates) > 1
        self.counts["context"] += bool(mapping.row.language or mapping.row.context)
        self.counts["split"] += len(mapping.targets) > 1
        self.counts["offered"] += len(mapping.records()) > 1

    def undecided(self) -> list[str]:
        """On terms that have no target yet."""
        names = {"review": "to be reviewed", "none": "without a match that nobody has looked at"}
        left = [f"{self.counts[key]:,} {name}" for key, name in names.items() if self.counts[key]]
        return [f"not in the file, since nothing is decided: {' and '.join(left)}"] if left else []

    def split(self, how: str, *, offered: bool = False) -> list[str]:
        """On cells of several things; offered: those to be reviewed as well."""
        count = self.counts["offered" if offered else "split"]
        return [f"cells of several things, {how}: {count:,}"] if count else []

    def flagged(self, how: str) -> list[str]:
        count = self.counts["flagged"]
        return [f"decisions to be looked at again, {how}: {count:,}"] if count else []

    def single(self) -> list[str]:
        """On what a format with a single target for each term leaves out."""
        notes = [HISTORY]
        if self.counts["candidates"]:
            count = many(self.counts["candidates"], "term")
            notes.append(f"other candidates of {count} are not in the file")
        return notes


def many(count: int, noun: str) -> str:
    """A number with its noun.

    >>> many(1, "row"), many(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_unchecked(mapping: TermMapping) -> bool:
    """Whether there is nothing that a file of mappings could say about a term."""
    return mapping.decision is None and mapping.status != "auto"


def confidence_of(mapping: TermMapping) -> float | None:
    """The machine's confidence in the target; None where it is not among its candidates."""
    target = mapping.target
    for candidate in mapping.candidates:
        if target is not None and candidate.concept == target.concept:
            return candidate.confidence
    return None
