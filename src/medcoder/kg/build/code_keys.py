"""`kg.codes.code_key` for whole columns, and the keys that look-ups go by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from medcoder.kg.build.spill import SortedRuns
from medcoder.kg.codes import SEPARATOR, code_key, vocabulary_key
from medcoder.arrays import raw_strings
from medcoder.kg.keys import hash_strings, make_keys
from medcoder.text.series import is_ascii

_BLANKS = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"  # what str.strip takes away, in ASCII


def code_keys(frame: pl.DataFrame, vocabulary_keys: Sequence[str]) -> pl.Series:
    """Keys of the columns (source, code); a source is a place in `vocabulary_keys`.

    In polars where all is ASCII, in Python elsewhere: they differ in what is a capital or a blank.
    """
    code = frame["code"].str.strip_chars(_BLANKS).str.to_uppercase()
    keys_of = pl.Series(vocabulary_keys, dtype=pl.String)
    rows = pl.DataFrame({"vocabulary": keys_of.gather(frame["source"]), "code": code})
    if code.str.contains(":", literal=True).any():
        rows = rows.with_columns(code=_without_prefix(rows))
    if keys_of.str.starts_with("ICD").any():
        undotted = pl.col("code").str.replace_all(".", "", literal=True)
        icd = pl.col("vocabulary").str.starts_with("ICD")
        rows = rows.with_columns(code=pl.when(icd).then(undotted).otherwise("code"))
    keys = rows.select(pl.concat_str("vocabulary", "code", separator=SEPARATOR)).to_series()
    rest = np.flatnonzero(~is_ascii(frame["code"]).to_numpy())
    if len(rest) == 0:
        return keys
    pairs = zip(rows["vocabulary"].gather(rest), frame["code"].gather(rest), strict=True)
    return keys.scatter(rest, pl.Series([code_key(*pair) for pair in pairs], dtype=pl.String))


def add_keys(strings: pl.Series, concepts: pl.Series, keys: SortedRuns, bits: int) -> None:
    """Add the look-up keys of strings that stand for these concepts."""
    hashes = hash_strings(*raw_strings(large_strings(strings)))
    keys.add(make_keys(hashes, concepts.to_numpy(), bits))


def large_strings(strings: pl.Series) -> Any:
    """One contiguous Arrow array of large strings."""
    return strings.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def _without_prefix(rows: pl.DataFrame) -> pl.Series:
    """Codes without a leading "NAME:" where NAME is a spelling of the row's own vocabulary."""
    prefix = rows["code"].str.extract(r"^([^:]*):").fill_null("")
    names = prefix.unique()
    named = pl.Series([vocabulary_key(name) for name in names], dtype=pl.String)
    local = rows["code"].str.extract(r"(?s)^[^:]*:(.*)$")
    own = local.is_not_null() & (prefix.replace_strict(names, named) == rows["vocabulary"])
    return rows["code"].zip_with(~own, local)
