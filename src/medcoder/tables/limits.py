"""How much a file may unpack to: a few hundred bytes can stand for a table of many gigabytes.

What a file says of its size is looked at before it is opened, and what really comes out of it is
counted while it is read. The limits of the command line are far above what people have; those who
need more say so in the environment:

    MEDCODER_LIMITS=unpacked=500G,ratio=2000

The service has limits of its own (`medcoder.serve.settings`).
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import zlib
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import IO, Any

from medcoder.errors import TooLarge, UsageError

ENVIRONMENT = "MEDCODER_LIMITS"
FREE = 1 << 30  # bytes that any file may unpack to, however small it is
ROW = 16  # bytes that a row counts for, beside one for each cell: where it is kept, it takes more
_BUFFER = 1 << 17  # bytes that are unpacked at a time
_DEFLATE = 1032  # times its size that gzipped data unpacks to, at most
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_LIMIT = re.compile(r"\s*([a-z]+)\s*=\s*([0-9]{1,15})([KMGT]?)B?\s*")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a file that is read may be."""

    unpacked: int = 256 << 30  # bytes that it unpacks to
    ratio: int = 250  # times its size on disk that it unpacks to, above FREE bytes
    held: int = 256 << 20  # bytes of what can only be read as a whole
    row: int = 32 << 20  # characters of a row
    cell: int = 10_000_000  # characters of a cell
    columns: int = 1_000_000

    def most(self, size: int) -> int:
        """Bytes that a file of this size may unpack to."""
        return min(self.unpacked, max(FREE, self.ratio * size))

    def check(self, name: str, value: int, *, file: str | Path, row: int | None = None) -> None:
        """An error if a value is above the limit of this name."""
        limit = getattr(self, name)
        if value > limit:
            raise too_large(_WORDS[name], name, limit, value, file=file, row=row)


_WORDS = {
    "unpacked": "it unpacks to more than is allowed",
    "ratio": "it unpacks to more than its size on disk allows",
    "held": "a part of it that must be read as a whole is too large",
    "row": "a row is too long",
    "cell": "a cell is too long",
    "columns": "it has too many columns",
}


def too_large(
    what: str, name: str, limit: int, value: int, *, file: str | Path, row: int | None = None
) -> TooLarge:
    """The error for a value above the limit of this name."""
    return TooLarge(
        what,
        file=file,
        row=row,
        values=f"{value:,}, where {limit:,} is the most",
        remedy=f"If you trust the file, allow more with {ENVIRONMENT}={name}={2 * value}",
        limit=limit,
    )


def usual() -> Limits:
    """The limits of the command line, with what the environment changes."""
    return _parsed(os.environ.get(ENVIRONMENT, ""))


@cache
def _parsed(text: str) -> Limits:
    changes = {}
    known = [field.name for field in fields(Limits)]
    for part in filter(str.strip, text.split(",")):
        match = _LIMIT.fullmatch(part)
        if match is None or match[1] not in known:
            raise UsageError(
                "a limit is not as it should be",
                where=ENVIRONMENT,
                values=repr(part),
                remedy=f"Write it as unpacked=500G. There are: {', '.join(known)}",
            )
        changes[match[1]] = int(match[2]) << _UNITS[match[3]]
    return replace(Limits(), **changes)


class Meter:
    """Counts what comes out of a file; more than is allowed is an error."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._limits = path, limits
        self._size = path.stat().st_size
        self._most = limits.most(self._size)
        self._total = 0

    def add(self, count: int, row: int | None = None) -> None:
        self._total += count
        if self._total > self._most:
            self.refuse(self._total, row)

    def check(self, count: int) -> None:
        """Look at a number that is known before anything is unpacked."""
        if count > self._most:
            self.refuse(count)

    def refuse(self, count: int, row: int | None = None) -> None:
        name = "unpacked" if self._most == self._limits.unpacked else "ratio"
        if name == "unpacked":
            raise too_large(_WORDS[name], name, self._most, count, file=self._path, row=row)
        raise TooLarge(
            _WORDS[name],
            file=self._path,
            row=row,
            values=f"{count:,} bytes or more of {self._size:,}, where {self._most:,} is the most",
            remedy="If you trust the file, allow more with "
            f"{ENVIRONMENT}={name}={2 * count // max(self._size, 1)}",
            limit=self._most,
        )


def open_bytes(path: Path, limits: Limits | None = None) -> IO[bytes]:
    """What is in a file, plain or gzipped."""
    if path.suffix.lower() == ".gz":
        return io.BufferedReader(_Unpacked(path, limits or usual()), _BUFFER)
    return path.open("rb")


def check_unpacked(path: Path, limits: Limits) -> None:
    """An error if a gzipped file unpacks to more than is allowed, told before a row is made of it.

    Of a damaged file, its reader tells which row.
    """
    size = path.stat().st_size
    if path.suffix.lower() != ".gz" or _DEFLATE * size <= limits.most(size):
        return
    with (
        contextlib.suppress(EOFError, OSError, zlib.error),
        open_bytes(path, limits) as stream,
    ):
        while stream.read(_BUFFER):
            pass


class _Unpacked(io.RawIOBase):
    """What is in a gzipped file; more than is allowed is an error."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.file = gzip.GzipFile(path, "rb")
        self._meter = Meter(path, limits)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.file.readinto(buffer)
        self._meter.add(count)
        return count

    def close(self) -> None:
        self.file.close()
        super().close()


def bytes_taken(stream: IO[bytes]) -> int:
    """How far into the file on disk a stream of `open_bytes` has come."""
    packed = getattr(getattr(stream, "raw", None), "file", None)
    return int((packed.fileobj if packed else stream).tell())
