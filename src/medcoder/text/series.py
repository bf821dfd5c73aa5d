"""`fold` for whole columns. Apart from `fold` itself, because it needs polars."""

from __future__ import annotations

import numpy as np
import polars as pl

from medcoder.text import fold


def fold_series(texts: pl.Series) -> pl.Series:
    """`fold` of a column: in polars where all is ASCII, in Python elsewhere."""
    bare = (
        texts.str.to_lowercase()
        .str.replace_all(r"['`]", "")
        .str.replace_all(r"[^a-z0-9+%<>=&]+", " ")
        .str.strip_chars(" ")
    )
    rest = np.flatnonzero(~(is_ascii(texts) & (bare != "")).to_numpy())
    if len(rest) == 0:
        return bare
    folded = pl.Series([fold(text) for text in texts.gather(rest)], dtype=pl.String)
    return bare.scatter(rest, folded)


def is_ascii(texts: pl.Series) -> pl.Series:
    return texts.str.len_bytes() == texts.str.len_chars()
