"""Translations of an ontology: Babelon tables (*.babelon.tsv).

One row gives one label, synonym or definition of a subject in another language. Columns come in
any order; see https://monarch-initiative.github.io/babelon/. Spreadsheets wrap a field in quotes
now and then, also one without a tab inside, so a field that is wrapped as a whole is unwrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa

from medcoder.kg.sources.ids import language_rule, leave_out, to_arrow
from medcoder.tables.unquoted import Unquoted, open_unquoted
from medcoder.text import language_tag
from medcoder.types import Count, ReadOptions

REQUIRED = ("subject_id", "predicate_id", "translation_language", "translation_value")
STATUS = "translation_status"

# Kind and rank of a term by the property it translates, under the names that tables use for it.
_KINDS = {
    "label": ("name", 0),
    "exactsynonym": ("EXACT", 1),
    "narrowsynonym": ("NARROW", 3),
    "broadsynonym": ("BROAD", 3),
    "relatedsynonym": ("RELATED", 4),
}


def open_translations(path: Path) -> Unquoted:
    remedy = f"A Babelon table has the columns {', '.join(REQUIRED)}"
    return open_unquoted(path, REQUIRED, separator="\t", remedy=remedy)


def translations(
    file: Unquoted, sources: Mapping[str, str], options: ReadOptions, count: Count
) -> Iterator[pa.Table]:
    """Terms of a table. `sources`: the concepts there are, each with its vocabulary."""
    keep = [*REQUIRED, *([STATUS] if STATUS in file.columns else [])]
    known = pl.DataFrame(
        {"subject_id": list(sources), "source": list(sources.values())},
        schema={"subject_id": pl.String, "source": pl.String},
    )
    for frame in file.read(keep):
        count.read += frame.height
        frame = frame.with_columns(_unwrapped(name) for name in keep).with_columns(
            property=_property(), language=_language(frame["translation_language"])
        )
        if STATUS not in keep:
            frame = frame.with_columns(pl.lit("").alias(STATUS))
        frame = frame.join(known, on="subject_id", how="left", maintain_order="left")
        frame = leave_out(frame, count, list(_rules(options)))
        count.kept += frame.height
        yield _terms(frame)


def _rules(options: ReadOptions) -> Iterator[tuple[str, pl.Expr]]:
    """Reasons to leave a row out, and what holds for the others."""
    yield "definition", ~pl.col("predicate_id").str.ends_with("0000115")
    yield "not a name", pl.col("property").is_in(list(_KINDS))
    yield "not translated", pl.col(STATUS) != "NOT_TRANSLATED"
    yield "empty term", pl.col("translation_value").str.strip_chars() != ""
    if options.languages is not None:
        yield "language", language_rule(options.languages)
    yield "absent concept", pl.col("source").is_not_null()


def _terms(frame: pl.DataFrame) -> pa.Table:
    kinds = {name: kind for name, (kind, _) in _KINDS.items()}
    ranks = {name: rank for name, (_, rank) in _KINDS.items()}
    terms = frame.select(
        concept="subject_id",
        term="translation_value",
        language="language",
        source="source",
        code="subject_id",
        kind=pl.col("property").replace_strict(kinds, return_dtype=pl.String),
        rank=pl.col("property").replace_strict(ranks, return_dtype=pl.Int32),
    )
    return to_arrow(terms)


def _property() -> pl.Expr:
    """Key of _KINDS: oboInOwl:hasExactSynonym and oio:exactSynonym are both "exactsynonym"."""
    name = pl.col("predicate_id").str.extract(r"([^:#/]*)$").str.to_lowercase()
    return name.str.strip_prefix("has")


def _language(codes: pl.Series) -> pl.Expr:
    tags = {code: language_tag(code.strip('"')) for code in codes.unique()}
    return pl.col("translation_language").replace(tags)


def _unwrapped(name: str) -> pl.Expr:
    text = pl.col(name)
    inner = text.str.slice(1, text.str.len_chars() - 2).str.replace_all('""', '"', literal=True)
    return pl.when(text.str.contains(r'^"(?:[^"]|"")*"$')).then(inner).otherwise(text).alias(name)
