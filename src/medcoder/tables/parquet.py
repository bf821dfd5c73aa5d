"""Parquet files, read and written, and frames of pandas, polars and Arrow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from medcoder.errors import InputError, UsageError
from medcoder.tables import Reading, Row, file_fingerprint
from medcoder.tables.text import missing_columns

_BATCH = 8192  # rows at a time


class Parquet:
    """A Parquet file, read a batch at a time."""

    format = "parquet"

    def __init__(self, path: Path, reading: Reading) -> None:
        reading.refuse("encoding", "delimiter", "sheet", format="Parquet")
        self.name, self._path = path.name, path
        try:
            with parquet.ParquetFile(path) as stored:
                self.schema = stored.schema_arrow
                self._size = stored.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                "it cannot be read as Parquet", file=path, values=error, remedy="Write it again"
            ) from error
        self.header = tuple(self.schema.names)

    def fingerprint(self) -> str:
        return file_fingerprint(self._path)

    def size(self) -> int:
        return int(self._size)

    def rows(self, skip: int = 0) -> Iterator[Row]:
        return _rows(self.batches(), skip)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The columns as they are; None: all."""
        try:
            with parquet.ParquetFile(self._path) as stored:
                yield from stored.iter_batches(_BATCH, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                "it is damaged", file=self._path, values=error, remedy="Write it again"
            ) from error


class Frame:
    """A table in memory."""

    name, format = "", "frame"

    def __init__(self, table: pa.Table) -> None:
        self.table, self.schema = table, table.schema
        self.header = tuple(map(str, table.schema.names))

    def fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps(self.header).encode())
        for row in self.rows():
            digest.update(json.dumps(row.fields).encode())
        return digest.hexdigest()

    def size(self) -> int:
        return int(self.table.num_rows)

    def rows(self, skip: int = 0) -> Iterator[Row]:
        return _rows(self.batches(), skip)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The columns as they are."""
        yield from self.table.to_batches(_BATCH)


def open_writer(path: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    """A Parquet file to write tables and batches to; close it, or use it in a with statement."""
    return parquet.ParquetWriter(path, schema)


def write_rows(path: Path, rows: Iterable[Sequence[object]], schema: pa.Schema) -> int:
    """Write a table as a whole; gives the number of its rows."""
    table = from_rows(rows, schema)
    parquet.write_table(table, path)
    return int(table.num_rows)


def from_rows(rows: Iterable[Sequence[object]], schema: pa.Schema) -> pa.Table:
    """Rows as a table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def read_column(path: Path, name: str) -> Iterator[str]:
    """The texts of a column without its nulls, a batch at a time."""
    table = Parquet(path, Reading())
    if name not in table.header:
        raise missing_columns([name], table.header, file=path, row=None)
    for batch in table.batches([name]):
        yield from (value for value in batch.column(0).to_pylist() if value is not None)


def open_frame(source: Any, reading: Reading) -> Frame:
    """From pandas, polars, Arrow, or whatever else exports the Arrow stream."""
    reading.refuse("encoding", "delimiter", "sheet", format="a table in memory")
    library = type(source).__module__.partition(".")[0]
    if isinstance(source, pa.Table):
        return Frame(source)
    if library == "pandas":
        return Frame(_from_pandas(source))
    if library == "polars" and hasattr(source, "to_arrow"):
        return Frame(source.to_arrow())
    if hasattr(source, "__arrow_c_stream__"):
        return Frame(pa.table(source))
    if isinstance(source, pa.RecordBatch):
        return Frame(pa.Table.from_batches([source]))
    raise UsageError(
        f"a {type(source).__name__} is no table: give a path, or a data frame of pandas, polars or "
        "Arrow (of a polars LazyFrame, what collect() gives)"
    )


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, UnicodeError):  # values of several types in one column
        frame = frame.copy()
        for name in frame.select_dtypes("object").columns:
            frame[name] = frame[name].map(_sound, na_action="ignore")
        return pa.Table.from_pandas(frame, preserve_index=False)


def _sound(value: Any) -> str:
    """As a string; half of a surrogate pair is no character."""
    return str(value).encode(errors="replace").decode()


def _rows(batches: Iterator[pa.RecordBatch], skip: int) -> Iterator[Row]:
    for batch in batches:
        start = min(skip, batch.num_rows)
        skip -= start
        columns = [_texts(column.slice(start)) for column in batch.columns]
        for fields in zip(*columns, strict=True):
            yield Row(fields)


def _texts(column: Any) -> list[str]:
    """Values as strings; null is empty."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            column = column.cast(pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested, or bytes of no text
            return ["" if value is None else _nested(value) for value in column.to_pylist()]
    return ["" if value is None else value for value in column.to_pylist()]


def _nested(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
