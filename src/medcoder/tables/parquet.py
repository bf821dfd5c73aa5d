"""Parquet files, read and written, and frames of pandas, polars and Arrow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from medcoder.errors import InputError, UsageError
from medcoder.tables import Reading, Row, file_fingerprint
from medcoder.tables.limits import ROW, Limits, Meter, usual
from medcoder.tables.pages import check_pages
from medcoder.tables.text import missing_columns

_BATCH = 8192  # rows at a time
_TOGETHER = 1 << 25  # bytes of a batch, as far as a row has not more
_BUFFER = 1 << 20
# What reading a damaged file, or one with values that Python has no place for, may raise.
FAULTS = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError)
_AGAIN = "Copy or download it again, or write it anew"


class Parquet:
    """A Parquet file, read a batch at a time."""

    format = "parquet"

    def __init__(self, path: Path, reading: Reading) -> None:
        reading.refuse("encoding", "delimiter", "sheet", format="Parquet")
        self.name, self._path, self._limits = path.name, path, reading.limits
        self.schema, self._size = read_schema(path, reading.limits)
        self.header = tuple(self.schema.names)

    def fingerprint(self) -> str:
        return file_fingerprint(self._path)

    def size(self) -> int:
        return int(self._size)

    def check(self) -> None:
        done = 0
        try:
            for batch in packed_batches(self._path, None, limits=self._limits):
                done += batch.num_rows
        except FAULTS as error:
            raise damaged(self._path, error, done + 1) from error

    def rows(self, skip: int = 0) -> Iterator[Row]:
        done = 0
        try:
            for batch in packed_batches(self._path, None, limits=self._limits):
                start = min(skip - done, batch.num_rows) if skip > done else 0
                yield from _rows_of(batch.slice(start))
                done += batch.num_rows
        except FAULTS as error:
            raise damaged(self._path, error, done + 1) from error

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The columns as they are; None: all."""
        return read_batches(self._path, columns, limits=self._limits)


def damaged(path: Path, error: Exception, row: int | None = None) -> InputError:
    """The error to raise for one of FAULTS."""
    values = str(error).partition("\n")[0].rstrip(".")[:300]
    what = "cannot be read as Parquet"
    return InputError(what, file=path, row=row, values=values, remedy=_AGAIN)


def read_schema(path: Path, limits: Limits) -> tuple[pa.Schema, int]:
    """The columns of a file, and how many rows it says that it has."""
    try:
        with parquet.ParquetFile(path) as stored:
            limits.check("columns", stored.metadata.num_columns, file=path)
            stored.schema_arrow.names  # noqa: B018  an error here if one is not UTF-8
            return stored.schema_arrow, int(stored.metadata.num_rows)
    except FAULTS as error:
        raise damaged(path, error) from error


def read_batches(
    path: Path, columns: Sequence[str] | None, *, limits: Limits, size: int = _BATCH
) -> Iterator[pa.RecordBatch]:
    """Rows of these columns (None: all), with the types of the file."""
    done = 0
    schema = read_schema(path, limits)[0]
    try:
        for batch in packed_batches(path, columns, limits=limits, size=size):
            fields = list(schema) if columns is None else [schema.field(name) for name in columns]
            unpacked = [
                _as_type(column, field.type)
                for column, field in zip(batch.columns, fields, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(unpacked, schema=pa.schema(fields))
            done += batch.num_rows
    except FAULTS as error:
        raise damaged(path, error, done + 1) from error


def packed_batches(
    path: Path, columns: Sequence[str] | None, *, limits: Limits, size: int = _BATCH
) -> Iterator[pa.RecordBatch]:
    """Rows in batches that stay small; a text that stands in many rows is there once.

    One of FAULTS is raised if it is damaged.
    """
    with parquet.ParquetFile(path) as stored:
        metadata = stored.metadata
    wanted = None if columns is None else set(columns)
    leaves = [
        leaf
        for leaf in range(metadata.num_columns)
        if wanted is None or metadata.schema.column(leaf).path.partition(".")[0] in wanted
        or metadata.schema.column(leaf).path in wanted
    ]  # fmt: skip
    known = check_pages(path, metadata, leaves, limits)
    shared, widest = [], 1
    for leaf, column in known.items():
        about = metadata.schema.column(leaf)
        if about.physical_type == "BYTE_ARRAY" and column.dictionary:
            shared.append(about.path)
        if about.physical_type == "FIXED_LEN_BYTE_ARRAY":
            limits.check("cell", about.length, file=path)
            widest += about.length
        widest += column.delta
    size = max(1, min(size, _TOGETHER // widest))
    meter, done = Meter(path, limits), 0
    with parquet.ParquetFile(
        path, read_dictionary=shared, buffer_size=_BUFFER, page_checksum_verification=True
    ) as stored:
        for batch in stored.iter_batches(size, columns=columns, use_threads=False):
            for part in _small(batch, min(_TOGETHER, limits.row)):
                weight = _weight(part)
                if weight > limits.row and part.num_rows == 1:
                    limits.check("row", weight, file=path, row=done + 1)
                meter.add(weight + part.num_rows * (ROW + part.num_columns), done + 1)
                yield part
                done += part.num_rows


def _as_type(column: Any, kind: pa.DataType) -> Any:
    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    return column if column.type == kind else column.cast(kind)


def _small(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Its rows in parts of at most so many bytes, or of one row."""
    if batch.num_rows < 2 or _weight(batch) <= most:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _small(batch.slice(0, half), most)
    yield from _small(batch.slice(half), most)


def _weight(batch: pa.RecordBatch) -> int:
    """Bytes of a batch, were every value written out."""
    return sum(_bytes(column) for column in batch.columns)


def _bytes(column: Any) -> int:
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _bytes(column.storage)
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            return int(column.nbytes)
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return pc.sum(lengths.take(column.indices), min_count=0).as_py() or 0
    if pa.types.is_struct(kind):
        return sum(map(_bytes, column.flatten()))
    if pa.types.is_map(kind):  # values of keys and items, in this slice
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        parts = (column.keys, column.items)
        return sum(_bytes(part.slice(start, end - start)) for part in parts)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bytes(column.flatten()) + 4 * len(column)
    return int(column.nbytes)


def _is_text(kind: Any) -> bool:
    of = pa.types
    texts = (of.is_string, of.is_large_string, of.is_binary, of.is_large_binary)
    return any(is_kind(kind) for is_kind in texts)


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

    def check(self) -> None:
        """What is in memory already is no larger than it looks."""

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
    limits, row = usual(), 0
    header = read_schema(path, limits)[0].names
    if name not in header:
        raise missing_columns([name], header, file=path, row=None)
    try:
        for batch in packed_batches(path, [name], limits=limits):
            yield from (value for value in batch.column(0).to_pylist() if value is not None)
            row += batch.num_rows
    except FAULTS as error:
        raise damaged(path, error, row + 1) from error


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
        yield from _rows_of(batch.slice(start))


def _rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    for fields in zip(*map(_texts, batch.columns), strict=True):
        yield Row(fields)


def _texts(column: Any) -> list[str]:
    """Values as strings; null is empty."""
    if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
        values = _texts(column.dictionary)  # each once, however many rows it stands in
        return ["" if index is None else values[index] for index in column.indices.to_pylist()]
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        try:
            column = column.cast(pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested, or bytes of no text
            return ["" if value is None else _nested(value) for value in column.to_pylist()]
    return ["" if value is None else value for value in column.to_pylist()]


def _nested(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
