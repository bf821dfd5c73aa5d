"""Large text files without quotes as data frames: RRF, RF2, OMOP, and TSV.

Blocks of whole lines go to polars; every block is checked first, so that a row with the wrong
number of fields or a byte that is not UTF-8 is an error that names the row, never a shifted column.
Only "\\n" ends a row: U+2028 and U+0085 are part of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from medcoder.errors import InputError, TooLarge
from medcoder.prefetch import in_parallel, prefetch
from medcoder.tables.limits import bytes_taken, open_bytes, usual
from medcoder.tables.text import (
    FAULTS,
    check_columns,
    check_file,
    check_not_utf16,
    decode,
    fault,
)

_ZLIB = (b"x\x01", b"x\xda")  # headers of zlib that are UTF-8 too
_PIECE = 1 << 17
BLOCK = 1 << 23  # bytes a block: small enough for the allocator to use again without new pages
LONGEST = 1 << 26  # bytes of a row
LONGEST_HEADER = 1 << 20
_INTACT = "Check that this is the right file and that its header is intact"
_CONVERT = "Convert the file to UTF-8, or download it again"
_NO_TEXT = "Line ends may be missing, or it may be no text file"


class Unquoted:
    """One delimited file: how it is cut into fields, and how far reading has come."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        *,
        separator: str,
        header: bool = False,
        trailing: bool = False,
        looks_like: dict[int, str] | None = None,
    ) -> None:
        """`trailing`: each row ends with a separator. `looks_like`: number of fields -> file."""
        self.path = path
        self.columns = list(columns)
        self.separator = separator
        self.header = header
        self.trailing = trailing
        self.looks_like = looks_like or {}
        self.size = size_of(path)
        self.done = 0  # bytes of the file on disk taken in so far
        self.before = 0  # rows of the file before the frame just given, header included

    def read(self, keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Data frames of the columns in `keep`, all strings, empty fields as empty strings."""
        self.done = 0
        picked = sorted(self.columns.index(name) for name in keep)

        def parse(checked: tuple[int, int, bytes]) -> tuple[int, pl.DataFrame]:
            return checked[0], self._parse(*checked, picked)

        for before, frame in in_parallel(parse, prefetch(self._checked(), depth=1)):
            self.before = before + self.header
            yield frame

    def _parse(self, before: int, rows: int, block: bytes, picked: list[int]) -> pl.DataFrame:
        schema = dict.fromkeys([*self.columns, *([""] if self.trailing else [])], pl.String)
        # polars would decompress a block that begins so: put a row before it, to be dropped again.
        added = block.startswith(_ZLIB)
        try:
            frame = pl.read_csv(
                self.separator.encode() * self._separators + b"\n" + block if added else block,
                separator=self.separator,
                has_header=False,
                quote_char=None,
                schema=schema,
                columns=picked,
                empty_string_is_null=False,
            )
        except pl.exceptions.PolarsError as error:
            self._find_bad_row(block, before)
            remedy = "Compare the file with the release"
            raise InputError(
                "cannot be read", file=self.path, values=error, remedy=remedy
            ) from error
        frame = frame[1:] if added else frame
        if frame.height != rows:
            self._find_bad_row(block, before)
            raise InputError(
                f"{rows:,} lines gave {frame.height:,} rows",
                file=self.path,
                row=before + self.header + 1,
                remedy="Look for empty lines near this row",
            )
        frame.columns = [self.columns[position] for position in picked]
        return frame

    @property
    def _separators(self) -> int:
        return len(self.columns) - (0 if self.trailing else 1)

    def _checked(self) -> Iterator[tuple[int, int, bytes]]:
        """Rows before each block, rows in it, and the block, which has the right shape."""
        before = 0
        try:
            for block in self._blocks():
                rows = self._check(block, before)
                yield before, rows, block
                before += rows
        except FAULTS as error:
            raise fault(self.path, error, before + self.header + 1) from error

    def _check(self, block: bytes, before: int) -> int:
        """Number of rows, each of which has the right number of fields and is UTF-8."""
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        if not block.endswith(b"\n"):
            ends = np.append(ends, len(data))
        rows = len(ends)
        if (
            np.diff(_counts_before(data, ord(self.separator), ends), prepend=0) != self._separators
        ).any():
            self._find_bad_row(block, before)
        if not block.isascii():
            decode(block, file=self.path, before=before + self.header, remedy=_CONVERT)
        return rows

    def _find_bad_row(self, block: bytes, before: int) -> None:
        """Raise an error for the first row with the wrong number of fields, if there is one."""
        separator = self.separator.encode()
        for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), before + 1):
            separators = line.count(separator)
            if separators == self._separators:
                continue
            fields = separators + (0 if self.trailing else 1)
            what = f"{fields} fields where {len(self.columns)} were expected"
            other = self.looks_like.get(fields)
            if not line.strip():
                what = "an empty row"
            elif number == 1 and other and other != self.path.name:
                raise InputError(
                    f"{what}: this has the shape of {other}",
                    file=self.path,
                    row=number,
                    remedy="Check whether two files were swapped",
                )
            raise InputError(
                what,
                file=self.path,
                row=number + self.header,
                remedy="The file may be cut off or edited: compare it with the release",
            )

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines, about BLOCK bytes at a time, without header, BOM and trailing blanks."""
        first = True
        for block in self._raw_blocks():
            if first:
                check_not_utf16(self.path, block)
                block = block.removeprefix(b"\xef\xbb\xbf")
                block = self._without_header(block) if self.header else block
                first = False
            if b"\r" in block:
                block = block.replace(b"\r\n", b"\n")
            if block:
                yield block
        if first:  # compressed nothing
            raise InputError("is empty", file=self.path, remedy="Copy or download it again")

    def _without_header(self, block: bytes) -> bytes:
        line, _, rest = block.partition(b"\n")
        header = line.rstrip(b"\r").decode(errors="replace").split(self.separator)
        if header != self.columns:
            check_columns(self.columns, header, file=self.path, remedy=_INTACT)
            raise InputError("unexpected order of columns", file=self.path, row=1, remedy=_INTACT)
        return rest

    def _raw_blocks(self) -> Iterator[bytes]:
        check_file(self.path)
        with open_bytes(self.path) as stream:
            while block := stream.read(BLOCK):
                if not block.endswith(b"\n"):
                    rest = stream.readline(LONGEST)  # to the end of the row
                    self._check_length(rest)
                    block += rest
                self.done = bytes_taken(stream)
                yield block

    def _check_length(self, rest: bytes) -> None:
        if len(rest) == LONGEST and not rest.endswith(b"\n"):
            raise TooLarge(
                f"a row of more than {LONGEST >> 20} MB",
                file=self.path,
                remedy=_NO_TEXT,
                limit=LONGEST,
            )


def _counts_before(
    data: npt.NDArray[Any], byte: int, positions: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """How often `byte` occurs in `data` before each of the ascending positions.

    Eight bytes at a time: a multiplication adds the eight flags of a word up in its highest byte.
    Unlike the functions of `bytes`, all of this leaves other threads the interpreter.
    """
    counted = np.empty(len(positions), np.int64)
    ones, top = np.uint64(0x0101010101010101), np.uint64(56)
    lower = np.array(
        [(1 << 8 * part) - 1 for part in range(8)], np.uint64
    )  # bytes before a position
    flags = np.zeros(_PIECE + 8, np.uint8)
    words = flags.view("<u8")
    total = first = 0
    for begin in range(0, len(data) + 1, _PIECE):  # pieces that stay in the cache
        piece = data[begin : begin + _PIECE]
        np.equal(piece, byte, out=flags[: len(piece)])
        flags[len(piece) :] = 0
        counts = words * ones >> top
        before = np.cumsum(counts) - counts
        last = int(np.searchsorted(positions, begin + _PIECE))
        within = positions[first:last] - begin
        word = within >> 3
        counted[first:last] = (
            before[word] + ((words[word] & lower[within & 7]) * ones >> top) + total
        )
        total, first = total + int(counts.sum()), last
    return counted


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where there is none to be seen, which reading it will tell."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_header(path: Path, separator: str) -> list[str]:
    """Column names of the first line of a plain or gzipped file."""
    check_file(path)
    try:
        with open_bytes(path) as stream:
            line = stream.readline(LONGEST_HEADER)
    except FAULTS as error:
        raise fault(path, error) from error
    if not line.strip():
        raise InputError("is empty", file=path, remedy="Copy or download it again")
    check_not_utf16(path, line)
    if len(line) == LONGEST_HEADER and not line.endswith(b"\n"):
        raise TooLarge(
            f"a header of more than {LONGEST_HEADER >> 20} MB",
            file=path,
            row=1,
            remedy=_NO_TEXT,
            limit=LONGEST_HEADER,
        )
    text = line.decode("utf-8-sig", errors="replace").rstrip("\r\n")
    header = text.split(separator)
    usual().check("columns", len(header), file=path, row=1)
    return header


def open_unquoted(
    path: Path, wanted: Sequence[str], *, separator: str, remedy: str = _INTACT
) -> Unquoted:
    """A file with a header that names at least the columns in `wanted`, in any order."""
    header = read_header(path, separator)
    check_columns(wanted, header, file=path, remedy=remedy)
    if len(set(header)) < len(header):
        raise InputError("a column appears twice", file=path, row=1, remedy=remedy)
    return Unquoted(path, header, separator=separator, header=True)
