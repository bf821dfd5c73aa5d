"""What readers of releases with numeric ids share: checked ids, look-up, counted filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.tables.unquoted import Unquoted
from medcoder.types import Count

# One spelling a number, so that the string and the number name the same concept; 18 digits, the
# longest SNOMED CT id, fit 64 bits.
_ID = r"^(?:0|[1-9][0-9]{0,17})$"

Rules = Sequence[tuple[str, pl.Expr]]


def read_ids(file: Unquoted, keep: Sequence[str], ids: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Frames of the columns in `keep`; those in `ids` hold whole numbers, still as strings."""
    before = int(file.header)
    for frame in file.read(keep):
        for name in ids:
            good = frame[name].str.contains(_ID)
            if not good.all():
                position = good.index_of(False) or 0
                raise InputError(
                    f"{name} is not an id of 1 to 18 digits",
                    values=repr(frame[name][position][:40]),
                    file=file.path,
                    row=before + position + 1,
                    remedy="Check that this is the file that its name says, and that it is intact",
                )
        before += frame.height
        yield frame


def positions(ids: pl.Series, known: pl.Series) -> pl.Series:
    """Where each of `ids` stands in `known`, which is sorted; null where it does not.

    A join would hash all of `known` for every block: a binary search takes no memory and a
    sixth of the time.
    """
    if known.is_empty():
        return pl.Series([None], dtype=pl.UInt32).new_from_index(0, len(ids))
    position = known.search_sorted(ids).clip(upper_bound=len(known) - 1)
    return position.set(known.gather(position) != ids, None)


def look_up(frame: pl.DataFrame, table: pl.DataFrame, on: str) -> pl.DataFrame:
    """Add the columns that `table`, sorted by its number `id`, has for the ids in column `on`."""
    position = positions(frame[on].cast(pl.Int64), table["id"])
    return frame.with_columns(column.gather(position) for column in table.drop("id"))


def leave_out(frame: pl.DataFrame, count: Count, rules: Rules) -> pl.DataFrame:
    """Rows for which all rules hold; each other one is counted under the first that does not."""
    kept = pl.Series([True]).new_from_index(0, frame.height)
    rows = frame.height
    holds = frame.select(rule.alias(str(position)) for position, (_, rule) in enumerate(rules))
    for (reason, _), column in zip(rules, holds, strict=True):
        kept &= column
        left = int(kept.sum())
        count.drop(reason, rows - left)
        rows = left
    return frame if rows == frame.height else frame.filter(kept)


def language_rule(languages: Collection[str], column: pl.Expr | None = None) -> pl.Expr:
    """Holds for rows whose language, or the one it is a variety of, is among `languages`."""
    tag = pl.col("language") if column is None else column
    wanted = sorted(languages)
    return tag.is_in(wanted) | tag.str.extract(r"^([^-]*)-").is_in(wanted).fill_null(False)


def to_arrow(frame: pl.DataFrame) -> pa.Table:
    """The frame as it is in memory, without copying its strings."""
    return frame.to_arrow(compat_level=pl.CompatLevel.newest())
