"""Tables: CSV, TSV, XLSX, Parquet, and frames of pandas, polars and Arrow.

    text      decoding, CSV and TSV with quotes, small tables without
    unquoted  large files without quotes (RRF, RF2, OMOP) as data frames
    frames    CSV, TSV and Parquet of any size as data frames
    xlsx      sheets of a workbook, read and written
    parquet   Parquet files and frames in memory, read and written
    write     one writer of text, one guard against formulas
    limits    how much a file may unpack to
    pages     what the pages of a Parquet file say of their size

`unquoted` and `frames` need polars; the others do not. Whether a file has quotes is never guessed:
the caller names the reader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from medcoder.errors import InputError, UsageError
from medcoder.registry import Registry
from medcoder.tables.limits import Limits, usual

T = TypeVar("T")
# How a file name ends -> function (path, reading) that opens it.
TABLES = Registry(
    "table format",
    {
        ".csv": "medcoder.tables.text:open_csv",
        ".tsv": "medcoder.tables.text:open_tsv",
        ".txt": "medcoder.tables.text:open_delimited",
        ".xlsx": "medcoder.tables.xlsx:Sheet",
        ".xlsm": "medcoder.tables.xlsx:Sheet",
        ".parquet": "medcoder.tables.parquet:Parquet",
    },
    extras={".xlsx": "tables", ".xlsm": "tables"},
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a table, where its format leaves it open."""

    encoding: str | None = None  # of text; None: by its first bytes, else UTF-8
    delimiter: str | None = None  # of text; None: by the ending of the name
    sheet: str | None = None  # of a workbook; None: the first
    keep_bad_rows: bool = False  # take rows with a wrong number of fields, unmapped
    limits: Limits = field(default_factory=usual)

    def refuse(self, *names: str, format: str) -> None:
        """An option that this format has no use for is an error."""
        for name in names:
            if getattr(self, name):
                option = name.replace("_", "-")
                raise UsageError(f"--{option} makes no sense for {format}: leave it out")


class Row(NamedTuple):
    """The fields of a row, as many as the header has."""

    fields: tuple[str, ...]
    whole: bool = True  # False: it had more or fewer fields


class Table(Protocol):
    """A table that is read from its start as often as need be, never held as a whole."""

    name: str  # of the file, or ""
    format: str  # csv, tsv, xlsx, parquet or frame
    header: tuple[str, ...]

    def fingerprint(self) -> str:
        """SHA-256 of the content, in hexadecimal."""
        ...

    def size(self) -> int:
        """Number of rows, or a guess from what was read so far: for progress."""
        ...

    def check(self) -> None:
        """An error if it unpacks to more than is allowed, told before anything of it is kept."""
        ...

    def rows(self, skip: int = 0) -> Iterator[Row]:
        """Rows after the first `skip`, in order."""
        ...


def open_table(source: Any, reading: Reading | None = None) -> Table:
    """A table by its path, or a frame of pandas, polars or Arrow."""
    reading = reading or Reading()
    if not isinstance(source, str | Path):
        from medcoder.tables.parquet import open_frame

        return open_frame(source, reading)
    path = Path(source).expanduser()
    if not path.exists():
        raise InputError("does not exist", file=path, remedy="Check the path")
    if path.is_dir():
        raise InputError("it is a folder", file=path, remedy="Name a file in it")
    if not path.stat().st_size:
        raise InputError("it is empty", file=path, remedy="It needs a header and rows")
    ending = path.suffix.lower()
    if ending not in TABLES:
        if reading.delimiter is None:
            known = ", ".join(TABLES)
            remedy = "For text with another ending, name what is between fields with --delimiter"
            raise UsageError(
                "no table has a name that ends so",
                where=path,
                values=ending,
                remedy=remedy,
                message=f"{path} ends in {ending or 'nothing'}: medcoder reads {known}. {remedy}",
            )
        ending = ".txt"
    table: Table = TABLES.load(ending)(path, reading)
    return table


def file_fingerprint(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def grouped(
    items: Iterable[T], most: int, length: Callable[[T], int], *, characters: int = 1 << 25
) -> Iterator[list[T]]:
    """Lists of at most so many items, or fewer that have more than so many characters."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += length(item)
        if len(group) == most or total > characters:
            yield group
            group, total = [], 0
    if group:
        yield group


def row_length(row: Row) -> int:
    """Characters of a row."""
    return sum(map(len, row.fields))


def fitted(
    fields: list[str], width: int, *, path: Path, row: int, keep: bool, delimiter: str
) -> Row:
    """A row of the right width; another is an error, or is kept and marked."""
    if len(fields) == width:
        return Row(tuple(fields))
    if not keep:
        raise InputError(
            f"{len(fields)} fields, not {width} as in the header", file=path, row=row,
            remedy="Quote fields that hold the delimiter, or take such rows unmapped with "
            "--keep-bad-rows",
        )  # fmt: skip
    if len(fields) > width:  # nothing of it is lost: the last field takes what is left
        fields = [*fields[: width - 1], delimiter.join(fields[width - 1 :])]
    return Row((*fields, *[""] * (width - len(fields))), whole=False)


__all__ = [
    "TABLES", "Reading", "Row", "Table", "file_fingerprint", "fitted", "grouped", "open_table",
    "row_length",
]  # fmt: skip
