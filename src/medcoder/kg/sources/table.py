"""Tables with named columns: CSV, TSV and Parquet files of terms, relations and more.

In a folder, the role of a file is how its name ends: `terms`, `relations` or `edges`, `xrefs`,
`types`, `flags`, `vocabularies`. Only terms are required; a single file is a file of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.sources.frames import Rules, language_rule, leave_out
from medcoder.kg.sources.roles import Table, find_tables
from medcoder.kg.sources.tabular import split_name
from medcoder.text import language_tag
from medcoder.types import CONCEPT_FLAGS, SCHEMAS, Part, ReadOptions, Tally, Vocabulary

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
