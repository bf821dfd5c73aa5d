"""Folding whole columns: the same keys as folding row by row."""

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder.text import fold
from medcoder.text.series import fold_series
from support.strings import texts


@given(st.lists(texts | st.text(st.characters(codec="ascii"), max_size=8)))
@example(["'", "a_b", "A'B`c", "\x00", "--", "", "\x1f", "a ' b", "É", "K"])
def test_a_folded_column_is_its_folded_rows(column):
    series = pl.Series("term", column, dtype=pl.String)
    assert fold_series(series).to_list() == [fold(text) for text in column]
