"""Tables of any size as data frames: CSV, TSV and Parquet behind one interface.

Every reader gives data frames of strings in which a null is an empty string, and turns damage
into an error that names the file and the row. CSV has quotes; TSV has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from medcoder.errors import InputError
from medcoder.tables import grouped
from medcoder.tables.limits import check_unpacked, usual
from medcoder.tables.parquet import damaged, read_batches, read_schema
from medcoder.tables.text import Records, bad_byte, check_file, check_not_utf16
from medcoder.tables.unquoted import Unquoted, read_header

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
CHUNK = 50_000  # rows of CSV a frame
BATCH = 1 << 17  # rows of Parquet a frame
_EXACT = 1 << 53  # whole numbers up to here survive in a 64-bit float
# Old writers store strings as plain bytes.
_TEXT = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary())


class Frames(Protocol):
    """A table on disk."""

    path: Path
    columns: list[str]
    header: bool  # whether the first row of the file is the header
    size: int

    @property
    def done(self) -> int:
        """Bytes of the file on disk taken in so far."""
        ...

    def read(self, keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Data frames of the columns in `keep`, all strings, nulls as empty strings."""
        ...


def split_name(path: Path) -> tuple[str, str]:
    """Stem and suffix of a table's name, or the whole name and "" for other files.

    >>> split_name(Path("core_terms.csv.gz")), split_name(Path("notes.txt"))
    (('core_terms', '.csv.gz'), ('notes.txt', ''))
    """
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)], suffix
    return path.name, ""


def open_frames(path: Path) -> Frames:
    """Open a table by its suffix."""
    check_file(path)
    suffix = split_name(path)[1]
    if not suffix:
        raise InputError(
            "is no table that can be read",
            file=path,
            remedy=f"Save it with one of these suffixes: {', '.join(SUFFIXES)}",
        )
    check_unpacked(path, usual())
    if suffix == ".parquet":
        return ParquetFrames(path)
    if suffix.startswith(".tsv"):
        return Unquoted(path, read_header(path, "\t"), separator="\t", header=True)
    return CsvFrames(path)


class CsvFrames:
    """Comma-separated values with quotes, plain or gzipped."""

    header = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._records = Records(path)
        self.columns = next(self._rows(), [])
        self._records.done = 0
        if not self.columns:
            raise InputError("the header is empty", file=path, row=1, remedy="Name the columns")
        check_not_utf16(path, self.columns[0].encode())

    @property
    def done(self) -> int:
        """Bytes of the file on disk taken in so far."""
        return self._records.done

    def read(self, keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        self._records.done = 0
        positions = [self.columns.index(name) for name in keep]
        rows = self._rows()
        next(rows)
        picked = ([row[position] for position in positions] for row in rows)
        for chunk in grouped(picked, CHUNK, lambda fields: sum(map(len, fields))):
            yield _frame(chunk, keep)

    def _rows(self) -> Iterator[list[str]]:
        """The header, then rows that have as many fields."""
        width = 0
        blank = False  # empty lines are fine at the end of the file only
        for number, fields in self._records:
            width = width or len(fields)
            if fields and (blank or len(fields) != width):
                what = f"{len(fields)} fields where {width} were expected"
                raise InputError(
                    "an empty row" if blank else what,
                    file=self.path,
                    row=number - blank,
                    remedy="Quote fields that hold commas, and check that the file is not cut off",
                )
            blank = not fields
            if not blank:
                yield fields


def _frame(rows: list[list[str]], columns: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


class ParquetFrames:
    """Apache Parquet, read in batches."""

    header = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.done = 0
        schema, self._rows = read_schema(path, usual())
        self.columns = list(schema.names)

    def read(self, keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        self.done = row = 0
        try:
            for batch in read_batches(self.path, list(keep), limits=usual(), size=BATCH):
                data = {name: self._strings(batch, name, row) for name in keep}
                row += batch.num_rows
                self.done = self.size * row // max(self._rows, 1)
                yield pl.DataFrame(data)
        except (pa.ArrowException, pl.exceptions.PolarsError) as error:
            raise damaged(self.path, error, row + 1) from error
        self.done = self.size

    def _strings(self, batch: pa.RecordBatch, name: str, row: int) -> pl.Series:
        """A column as text; `row` is the number of rows before the batch."""
        column: Any = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind, of = column.type, pa.types
        if of.is_floating(kind):
            column = self._whole(column, name)
        elif kind in _TEXT:
            self._check_utf8(column, row)
        elif not (of.is_integer(kind) or of.is_boolean(kind) or of.is_null(kind)):
            raise InputError(
                "a column is not text or whole numbers",
                file=self.path,
                values=f"{name!r} is of type {kind}",
                remedy="Write it as text",
            )
        series = pl.Series(name, column.cast(pa.large_string()), dtype=pl.String)
        return series.fill_null("")

    def _whole(self, column: Any, name: str) -> Any:
        """Whole numbers that stand as floats, as a column of integers with gaps often does."""
        fits = pc.and_(pc.equal(column, pc.round(column)), pc.less(pc.abs(column), _EXACT))
        if pc.all(fits, min_count=0).as_py():
            return column.cast(pa.int64())
        raise InputError(
            "a column of floats holds more than whole numbers",
            file=self.path,
            values=f"{name!r} is of type {column.type}",
            remedy="Write it as text: a float keeps 15 digits of an identifier",
        )

    def _check_utf8(self, column: Any, row: int) -> None:
        try:
            column.cast(pa.large_binary()).cast(pa.large_string())
        except pa.ArrowInvalid:
            for number, value in enumerate(column.cast(pa.large_binary()).to_pylist(), row + 1):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError as error:
                    remedy = "Write the file again from text in UTF-8"
                    raise bad_byte(
                        value[error.start], file=self.path, row=number, remedy=remedy
                    ) from error
            raise
