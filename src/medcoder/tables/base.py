"""What every reader of tables gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from medcoder.errors import InputError, UsageError


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a table, where its format leaves it open."""

    encoding: str | None = None  # of text; None: by its first bytes, else UTF-8
    delimiter: str | None = None  # of text; None: by the ending of the name
    sheet: str | None = None  # of a workbook; None: the first
    keep_bad_rows: bool = False  # take rows with a wrong number of fields, unmapped

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

    def rows(self, skip: int = 0) -> Iterator[Row]:
        """Rows after the first `skip`, in order."""
        ...


def file_fingerprint(file: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fitted(
    fields: list[str], width: int, *, file: str, row: int, keep: bool, delimiter: str
) -> Row:
    """A row of the right width; another is an error, or is kept and marked."""
    if len(fields) == width:
        return Row(tuple(fields))
    if not keep:
        raise InputError(
            f"{len(fields)} fields, not {width} as in the header", file=file, row=row,
            remedy="Quote fields that hold the delimiter, or take such rows unmapped with "
            "--keep-bad-rows",
        )  # fmt: skip
    if len(fields) > width:  # nothing of it is lost: the last field takes what is left
        fields = [*fields[: width - 1], delimiter.join(fields[width - 1 :])]
    return Row((*fields, *[""] * (width - len(fields))), whole=False)
