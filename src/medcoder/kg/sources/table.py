"""Tables with named columns: CSV, TSV and Parquet files of terms, relations and more.

In a folder, the role of a file is how its name ends: `terms`, `relations` or `edges`, `xrefs`,
`types`, `flags`, `vocabularies`. Only terms are required; a single file is a file of terms.

Columns are found by name in any case: the name given with `--column OURS=THEIRS` first, then
ours, then the others below in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.sources.ids import Rules, language_rule, leave_out
from medcoder.registry import unknown
from medcoder.tables.frames import SUFFIXES, open_frames, split_name
from medcoder.text import language_tag
from medcoder.types import CONCEPT_FLAGS, SCHEMAS, Part, ReadOptions, Tally, Vocabulary

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
LARGEST_RANK = 1 << 21  # a graph tells no more apart
TRUE = ("true", "1", "yes", "y", "t")
_PAIR = ["concept", "type"]


class TableSource:
    """A folder of tables, or one file of terms."""

    name = "table"
    namespace = ""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._options = options
        self._tables = find_tables(path, options.columns)
        # The vocabulary of terms that name none.
        stem = path.resolve().name if path.is_dir() else split_name(path)[0]
        self._vocabulary = stem.upper()

    def size(self) -> int:
        return sum(table.rows.size for table in self._tables.values())

    def done(self) -> int:
        return sum(table.rows.done for table in self._tables.values())

    def vocabularies(self) -> Iterable[Vocabulary]:
        for _, frame in self._frames("vocabularies"):
            fields = [_column(frame, field) for field in ("name", "version", "title")]
            for name, version, title in zip(*fields, strict=True):
                yield Vocabulary(name, version, title)

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        yield from self._terms(tally)
        for table, frame in self._frames("types"):
            if "name" not in frame.columns:
                frame = frame.with_columns(name="type")
            rules = [("empty type", pl.col("type").str.strip_chars() != "")]
            yield _part("types", _keep(frame, table, tally, rules))
        for table, frame in self._frames("xrefs"):
            rules = [
                ("web address", ~pl.col("source").str.contains("^(?i)https?$")),
                ("no vocabulary", (pl.col("source") != "") & (pl.col("code") != "")),
            ]
            yield _part("xrefs", _keep(_xrefs(frame), table, tally, rules))
        for table, frame in self._frames("flags"):
            known = frame["flag"].is_in(CONCEPT_FLAGS)
            flags = ", ".join(CONCEPT_FLAGS)
            table.check(known, "an unknown flag", remedy=f"A flag is one of: {flags}")
            yield _part("flags", _keep(frame, table, tally, []))

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        for table, frame in self._frames("relations"):
            yield _part("edges", _keep(frame, table, tally, []))[1]

    def _terms(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        seen = pl.DataFrame(schema=dict.fromkeys(_PAIR, pl.String))
        rules, rows = self._rules(), 0
        for table, frame in self._frames("terms"):
            rows += frame.height
            if "type" in frame.columns:
                # A type belongs to the concept: it counts even where its row is left out.
                types = _split_types(frame).join(seen, on=_PAIR, how="anti", maintain_order="left")
                seen = pl.concat([seen, types])
                yield _part("types", types.with_columns(name="type"))
            frame = frame.with_columns(
                language=_tags(_column(frame, "language")),
                source=_filled(_column(frame, "source"), self._vocabulary),
                code=_filled(_column(frame, "code"), frame["concept"]),
                kind=_column(frame, "kind"),
                rank=_ranks(frame, table),
            )
            yield _part("terms", _keep(frame, table, tally, rules))
        if not rows:
            path = self._tables["terms"].path
            raise InputError("has no rows", file=path, remedy="Export or download it again")

    def _rules(self) -> Rules:
        options = self._options
        rules: list[tuple[str, pl.Expr]] = []
        if options.vocabularies is not None:
            rules.append(("vocabulary", pl.col("source").is_in(sorted(options.vocabularies))))
        if options.languages is not None:
            rules.append(("language", language_rule(options.languages)))
        return [*rules, ("empty term", pl.col("term").str.strip_chars() != "")]

    def _frames(self, role: str) -> Iterator[tuple[Table, pl.DataFrame]]:
        table = self._tables.get(role)
        if table is not None:
            for frame in table.frames():
                yield table, frame


def _part(part: Part, frame: pl.DataFrame) -> tuple[Part, pa.Table]:
    """The columns of the part's schema, as Arrow."""
    columns = frame.select(SCHEMAS[part].names)
    return part, columns.to_arrow(compat_level=pl.CompatLevel.newest())


def _keep(frame: pl.DataFrame, table: Table, tally: Tally, rules: Rules) -> pl.DataFrame:
    count = tally[table.path.name]
    count.read += frame.height
    frame = leave_out(frame, count, rules)
    count.kept += frame.height
    return frame


def _column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column, or as many empty strings."""
    if name in frame.columns:
        return frame[name]
    return pl.Series(name, [""], dtype=pl.String).new_from_index(0, frame.height)


def _filled(column: pl.Series, default: str | pl.Series) -> pl.Series:
    """The column with its empty cells filled."""
    other = default if isinstance(default, pl.Series) else pl.Series([default])
    return column.zip_with(column.str.strip_chars() != "", other)


def _tags(column: pl.Series) -> pl.Series:
    tags = {code: language_tag(code) or "en" for code in column.unique()}
    return column.replace_strict(tags, return_dtype=pl.String)


def _ranks(frame: pl.DataFrame, table: Table) -> pl.Series:
    """The rank that a row gives, else 0 for a preferred term and 1 for another."""
    preferred = _column(frame, "preferred").str.strip_chars().str.to_lowercase()
    usual = 1 - preferred.is_in(TRUE).cast(pl.Int32)
    text = _column(frame, "rank").str.strip_chars()
    rank = text.cast(pl.Int32, strict=False)
    table.check(
        (rank.is_not_null() & (rank.abs() < LARGEST_RANK)) | (text == ""),
        "the rank is not a whole number, or a very large one",
        remedy="Number the terms of a concept 0, 1, 2...: the lowest is its preferred name",
    )
    return rank.zip_with(rank.is_not_null(), usual)


def _split_types(frame: pl.DataFrame) -> pl.DataFrame:
    """Distinct pairs of a concept and a type; a cell may hold several types joined by bars."""
    types = frame.select(_PAIR).unique(maintain_order=True)
    types = types.with_columns(pl.col("type").str.split("|")).explode("type")
    types = types.with_columns(pl.col("type").str.strip_chars())
    return types.filter(pl.col("type") != "").unique(maintain_order=True)


def _xrefs(frame: pl.DataFrame) -> pl.DataFrame:
    """Vocabulary and code, from their columns or from "UMLS:C0001".

    "ALT:CHEBI:18484", or the kind "alt", is another code of the very concept, as in exports.
    """
    alt = _column(frame, "kind").str.strip_chars() == "alt"
    if "xref" not in frame.columns:
        parts = [frame["source"], frame["code"]]
    else:
        text = frame["xref"].str.strip_chars()
        alt |= text.str.starts_with("ALT:")
        split = text.str.strip_prefix("ALT:").str.splitn(":", 2).struct.unnest()
        parts = [column.fill_null("") for column in split]
    return frame.with_columns(
        source=parts[0].str.strip_chars(),
        code=parts[1].str.strip_chars(),
        kind=pl.when(alt).then(pl.lit("alt")).otherwise(pl.lit("xref")),
    )


# Which file is which, and which of its columns is which


class Table:
    """One file in its role, read under our column names."""

    def __init__(self, path: Path, role: str, mapping: Mapping[str, str]) -> None:
        self.role = role
        self.path = path
        self.rows = open_frames(path)
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
            raise unknown("column", name, ours)
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
                f"no such column for {name}",
                file=path,
                values=f"{theirs!r}; {there or 'no file has a use for it'}",
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
                    f"two files look like the file of {role}",
                    file=folder,
                    values=f"{files[role].name} and {path.name}",
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
                "two columns have the same name",
                file=path,
                values=f"{known[_key(name)]!r} and {name!r}",
                remedy="Rename one of them",
            )
        known[_key(name)] = name
    fields: dict[str, str] = {}
    for ours, others in FIELDS[role].items():
        names = map(_key, (mapping.get(ours, ours), ours, *others))
        theirs = next((known[name] for name in names if name in known), None)
        if theirs is not None:
            fields[ours] = theirs
    missing = [ours for ours in REQUIRED[role] if ours not in fields]
    if role == "xrefs" and "xref" not in fields and not {"source", "code"} <= fields.keys():
        missing.append("xref")
    if missing:
        raise InputError(
            f"no column for {' and '.join(missing)}",
            file=path,
            values=f"there are {_listed(columns)}",
            remedy=f"Name it: --column {missing[0]}=NAME",
        )
    return fields


def _key(name: str) -> str:
    return name.strip().casefold()


def _listed(columns: list[str]) -> str:
    names = ", ".join(columns)
    return names if len(names) <= 300 else f"{names[:300]}... ({len(columns):,} columns)"
