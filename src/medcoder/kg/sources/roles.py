"""Which file of a folder plays which role, and which of its columns is which.

Columns are found by name in any case: the name given with `--column OURS=THEIRS` first, then
ours, then the others below in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

import polars as pl

from medcoder.errors import InputError, UnknownName
from medcoder.kg.sources.tabular import SUFFIXES, open_rows, split_name

# Role -> how the stem of its file's name ends.
ROLES = {
    "terms": ("terms",),
    "relations": ("relations", "edges"),
    "xrefs": ("xrefs",),
    "types": ("types",),
    "flags": ("flags",),
    "vocabularies": ("vocabularies",),
}
_CONCEPT = ("concept_id", "cui", "id")
_SOURCE = ("vocabulary", "vocabulary_id", "sab")
# Role -> our name -> other names for it, the most telling first.
FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "terms": {
        # A plain list of codes and names is a terminology whose concepts are its codes.
        "concept": (*_CONCEPT, "concept_code", "code"),
        "term": ("name", "label", "str", "string", "synonym", "description"),
        "language": ("lang", "lat", "language_code"),
        "source": _SOURCE,
        "code": ("source_id", "source_code", "concept_code"),
        "kind": ("syn_type", "synonym_type", "term_type", "tty", "scope"),
        "rank": (),
        "type": ("types", "semantic_type", "semantic_types", "sty", "tui"),
        "preferred": ("is_preferred", "ispref", "pref"),
    },
    "relations": {
        "head": ("head_id", "subject", "subject_id", "from", "source"),
        "relation": ("rel", "relationship", "relation_type", "predicate", "predicate_id"),
        "tail": ("tail_id", "object", "object_id", "to", "target"),
    },
    "xrefs": {
        "concept": _CONCEPT,
        "xref": ("xref_id", "dbxref", "curie"),
        "source": _SOURCE,
        "code": ("source_id", "source_code"),
        "kind": (),
    },
    "types": {
        "concept": _CONCEPT,
        "type": ("type_id", "tui", "semantic_type", "sty"),
        "name": ("type_name", "sty", "semantic_type", "label"),
    },
    "flags": {"concept": _CONCEPT, "flag": ()},
    "vocabularies": {
        "name": (*_SOURCE, "source"),
        "version": (),
        "title": ("description",),
    },
}
REQUIRED = {
    "terms": ("concept", "term"),
    "relations": ("head", "relation", "tail"),
    "xrefs": ("concept",),
    "types": ("concept", "type"),
    "flags": ("concept", "flag"),
    "vocabularies": ("name",),
}
# Required columns in which an empty cell is an error, not a reason to leave the row out.
_FILLED = frozenset({"concept", "head", "relation", "tail", "name"})


class Table:
    """One file in its role, read under our column names."""

    def __init__(self, path: Path, role: str, mapping: Mapping[str, str]) -> None:
        self.role = role
        self.path = path
        self.rows = open_rows(path)
        self.fields = _fields(path, self.rows.columns, role, mapping)  # ours -> the file's
        self._before = 0  # rows of the file before the frame at hand, header included

    def frames(self) -> Iterator[pl.DataFrame]:
        """Frames of strings in which ids and relations are never empty."""
        self._before = int(self.rows.header)
        for frame in self.rows.read(list(dict.fromkeys(self.fields.values()))):
            # Not by expressions: polars takes a column name like "^a$" for a pattern.
            frame = pl.DataFrame({ours: frame[theirs] for ours, theirs in self.fields.items()})
            for field in (name for name in REQUIRED[self.role] if name in _FILLED):
                good = frame[field].str.strip_chars() != ""
                self.check(good, f"the {field} is empty", remedy="Fill it in or delete the row")
            if "concept" in frame.columns:
                broken = frame["concept"].str.contains("\n", literal=True)
                remedy = "Check which column holds the id, and its quotes"
                self.check(~broken, "the concept has a line break in its id", remedy=remedy)
            yield frame
            self._before += frame.height

    def check(self, good: pl.Series, what: str, *, remedy: str) -> None:
        """An error with its row unless all rows of the frame at hand are good."""
        if not good.all():
            row = self._before + (good.index_of(False) or 0) + 1
            raise InputError(what, file=self.path, row=row, remedy=remedy)


def find_tables(path: Path, columns: tuple[tuple[str, str], ...]) -> dict[str, Table]:
    """Role -> table of a folder, or of one file of terms. `columns`: our name, the file's."""
    ours = sorted({name for fields in FIELDS.values() for name in fields})
    for name, _ in columns:
        if name not in ours:
            near = get_close_matches(name, ours, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UnknownName(f"no column is called {name!r}{hint} There are: {', '.join(ours)}")
    files = _files(path) if path.is_dir() else {"terms": path}
    tables = {role: Table(file, role, dict(columns)) for role, file in files.items()}
    for name, theirs in columns:
        used = [table.fields.get(name, "") for table in tables.values()]
        if _key(theirs) not in map(_key, used):
            there = "; ".join(
                f"{table.path.name} has {_listed(table.rows.columns)}"
                for table in tables.values()
                if name in FIELDS[table.role]
            )
            raise InputError(
                f"no column {theirs!r} for {name}; {there or 'no file has a use for it'}",
                file=path,
                remedy=f"Name one of them: --column {name}=NAME",
            )
    return tables


def _files(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    # Files first: a folder, or a link that leads nowhere, is an error where it is all there is.
    for path in sorted(folder.iterdir(), key=lambda path: (not path.is_file(), path.name)):
        stem, suffix = split_name(path)
        if not suffix or stem.startswith("."):
            continue
        for role, endings in ROLES.items():
            if not stem.lower().endswith(endings):
                continue
            if role in files and not path.is_file():
                continue
            if role in files:
                raise InputError(
                    f"{files[role].name} and {path.name} both look like the file of {role}",
                    file=folder,
                    remedy="Move one of them elsewhere",
                )
            files[role] = path
    if "terms" not in files:
        raise InputError(
            "no file of terms here",
            file=folder,
            remedy=f"Its name must end in terms and one of: {', '.join(SUFFIXES)}",
        )
    return {role: files[role] for role in ROLES if role in files}


def _fields(
    path: Path, columns: list[str], role: str, mapping: Mapping[str, str]
) -> dict[str, str]:
    """Our name -> the file's, for the columns that the file has."""
    known: dict[str, str] = {}
    for name in columns:
        if _key(name) in known:
            raise InputError(
                f"two columns are called {known[_key(name)]!r} and {name!r}",
                file=path,
                remedy="Rename one of them",
            )
        known[_key(name)] = name
    fields: dict[str, str] = {}
    for ours, others in FIELDS[role].items():
        names = map(_key, (mapping.get(ours, ours), ours, *others))
        found = next((known[name] for name in names if name in known), None)
        if found is not None:
            fields[ours] = found
    missing = [ours for ours in REQUIRED[role] if ours not in fields]
    if role == "xrefs" and "xref" not in fields and not {"source", "code"} <= fields.keys():
        missing.append("xref")
    if missing:
        raise InputError(
            f"no column for {' and '.join(missing)}; there are: {_listed(columns)}",
            file=path,
            remedy=f"Name it: --column {missing[0]}=NAME",
        )
    return fields


def _key(name: str) -> str:
    return name.strip().casefold()


def _listed(columns: list[str]) -> str:
    names = ", ".join(columns)
    return names if len(names) <= 300 else f"{names[:300]}... ({len(columns):,} columns)"
