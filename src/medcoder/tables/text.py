"""Text: how bytes become characters, and rows of fields between delimiters.

CSV follows RFC 4180: a quoted field may hold delimiters, doubled quotes and line ends. A table
without quotes has one row a line, and quotes are part of the text. Both are strict: a byte of
another encoding or a broken quote is an error that names the file and the row.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import IO

from medcoder.errors import InputError, UsageError
from medcoder.tables import Reading, Row, file_fingerprint, fitted
from medcoder.tables.limits import Limits, Meter, bytes_taken, open_bytes, usual

FAULTS = (EOFError, OSError, zlib.error)  # what reading a file may raise, see `fault`
SAVE_AS_UTF8 = "Save it as UTF-8"
# Longest first: the mark of UTF-16 is the start of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCK = 1000  # rows between two looks at how much is read
# They are no encodings of tables, and of some of them come characters that no file can hold.
_NO_TABLES = {"utf-7", "idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"}
_REMEDIES = (
    "Name its encoding with --encoding, as in: --encoding cp1252",
    "It looks like UTF-16: try --encoding utf-16-le",
)
_LIKELY = (";", "\t", "|", ",")
_LOOKED_AT = 1000  # columns among which the nearest is looked for
_SHOWN = 300  # characters of a header that an error shows


# Files and bytes


def check_file(path: Path) -> None:
    """An error unless there is a file with something in it."""
    try:
        path.name.encode()  # it goes into the report
        state = path.stat()
    except UnicodeEncodeError as error:
        raise InputError("its name is not UTF-8", file=path, remedy="Rename it") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError("does not exist", file=path, remedy="Check the path") from error
    except OSError as error:
        raise fault(path, error) from error
    if not stat.S_ISREG(state.st_mode):
        what = "is a folder" if stat.S_ISDIR(state.st_mode) else "is not a regular file"
        raise InputError(what, file=path, remedy="A file of this name is needed")
    if state.st_size == 0:
        raise InputError("is empty", file=path, remedy="Copy or download it again")


def fault(path: Path, error: Exception, row: int | None = None) -> InputError:
    """The error to raise for one of FAULTS."""
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        what, remedy = "cannot be read", "Check that you may read it"
        values: object = error.strerror or error
    else:
        what, remedy = "the gzip data is cut off or damaged", "Copy or download it again"
        values = None
    return InputError(what, file=path, row=row, values=values, remedy=remedy)


def bad_byte(
    byte: int, *, file: str | Path, row: int | None, remedy: str = SAVE_AS_UTF8
) -> InputError:
    """The error for a byte that is not UTF-8."""
    return InputError(f"byte 0x{byte:02x} is not UTF-8", file=file, row=row, remedy=remedy)


def decode(data: bytes, *, file: str | Path, before: int = 0, remedy: str = SAVE_AS_UTF8) -> str:
    """Bytes of UTF-8 as text. `before`: lines of the file before them."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        row = before + data.count(b"\n", 0, error.start) + 1
        raise bad_byte(data[error.start], file=file, row=row, remedy=remedy) from error


def read_text(path: Path, *, limits: Limits | None = None) -> str:
    """A whole file of UTF-8, with or without a mark; its line ends as they are."""
    limits = limits or usual()
    try:
        with path.open("rb") as stream:
            data = stream.read(limits.held + 1)
        limits.check("held", len(data), file=path)
    except FileNotFoundError as error:
        raise InputError("does not exist", file=path, remedy="Check the path") from error
    except OSError as error:
        raise fault(path, error) from error
    return decode(data.removeprefix(codecs.BOM_UTF8), file=path)


def read_lines(path: Path) -> list[str]:
    """Lines of a file of UTF-8. Only a line feed ends one: U+2028 is part of the text."""
    return read_text(path).replace("\r\n", "\n").split("\n")


def check_not_utf16(path: Path, start: bytes) -> None:
    """An error for UTF-16, of which much would pass for UTF-8 with NUL characters."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start[:4]:
        raise InputError(
            "is UTF-16 or no text, not UTF-8", file=path, row=1, remedy="Convert the file to UTF-8"
        )


# Columns


def missing_columns(
    missing: Sequence[str],
    header: Iterable[str],
    *,
    file: str | Path | None,
    row: int | None = 1,
    remedy: str = "",
) -> InputError:
    """The error for columns that a table lacks; it lists those there are, the nearest first."""
    there = list(header)
    near = get_close_matches(missing[0], there[:_LOOKED_AT], n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    shown = ", ".join(there)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}... ({len(there):,} columns)"
    return InputError(
        "no such column",
        file=file,
        row=row,
        values=f"{', '.join(missing)}; there are: {shown or 'none'}",
        remedy=(hint + remedy).strip() or None,
    )


def check_columns(
    wanted: Iterable[str], header: Sequence[str], *, file: str | Path, row: int = 1, remedy: str
) -> None:
    """An error unless all of these columns are there."""
    missing = [name for name in wanted if name not in header]
    if missing:
        raise missing_columns(missing, header, file=file, row=row, remedy=remedy)


# Rows


class Records:
    """Rows of text with quotes, plain or gzipped: numbers and fields, the header being 1."""

    def __init__(
        self,
        path: Path,
        *,
        delimiter: str = ",",
        encoding: str = "utf-8-sig",
        remedies: tuple[str, str] = (SAVE_AS_UTF8, SAVE_AS_UTF8),
        limits: Limits | None = None,
    ) -> None:
        """`remedies`: for bytes of another encoding, and for what looks like UTF-16."""
        self.path, self.delimiter, self.encoding = path, delimiter, encoding
        self._remedies, self._limits = remedies, limits or usual()
        self._length = 0  # characters of the row at hand
        self.done = 0  # bytes of the file on disk taken in so far

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        return self._rows("strict")

    def _rows(self, errors: str) -> Iterator[tuple[int, list[str]]]:
        limits, number = self._limits, 0
        self._row = 1
        # For the whole process, and so never made less again: another thread may be reading.
        csv.field_size_limit(max(csv.field_size_limit(), limits.cell))
        try:
            with (
                open_bytes(self.path, limits) as stream,
                io.TextIOWrapper(stream, self.encoding, errors=errors, newline="") as text,
            ):
                for number, fields in enumerate(
                    csv.reader(self._lines(text), delimiter=self.delimiter, strict=True), 1
                ):
                    if self._length > limits.cell:
                        longest = max(map(len, fields), default=0)
                        limits.check("cell", longest, file=self.path, row=number)
                    if len(fields) > limits.columns:
                        limits.check("columns", len(fields), file=self.path, row=number)
                    self._length, self._row = 0, number + 1
                    if not number % _BLOCK:
                        self.done = bytes_taken(stream)
                    yield number, fields
                self.done = self.path.stat().st_size
        except UnicodeError as error:
            raise self._undecodable(number + 1) from error
        except csv.Error as error:
            if "field larger" in str(error):
                longest = max(self._length, limits.cell + 1)
                limits.check("cell", longest, file=self.path, row=number + 1)
            raise InputError(
                f"broken quotes: {error}", file=self.path, row=number + 1,
                remedy="Close every quote and double those inside a quoted field, or save the "
                "table in a format without quotes",
            ) from error  # fmt: skip
        except FAULTS as error:
            raise fault(self.path, error, number + 1) from error

    def _lines(self, text: IO[str]) -> Iterator[str]:
        """Lines, none of them longer than a row may be, nor all of those that a row goes over."""
        longest = self._limits.row
        while line := text.readline(longest + 1):
            self._length += len(line)
            if self._length > longest:
                self._limits.check("row", self._length, file=self.path, row=self._row)
            yield line

    def _undecodable(self, row: int) -> InputError:
        """The row of the first bad byte."""
        # Text is decoded in blocks, far ahead of the row at hand, so the row is found by a second,
        # lenient pass, in which byte 0xNN stands as U+DCNN.
        if self.encoding not in ("utf-8", "utf-8-sig"):
            what = f"it is not in the encoding {self.encoding}"
            return InputError(what, file=self.path, row=row, remedy=self._remedies[0])
        for row, fields in self._rows("surrogateescape"):
            text = self.delimiter.join(fields)
            for char in text:
                if "\udc80" <= char <= "\udcff":
                    remedy = self._remedies["\0" in text[:100]]
                    return bad_byte(ord(char) - 0xDC00, file=self.path, row=row, remedy=remedy)
        raise AssertionError("a byte that is not UTF-8 was there a moment ago")


def read_rows(
    path: Path, *, quoted: bool, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Rows of a small table with their numbers: CSV with quotes, or TSV without."""
    if quoted:
        yield from Records(path, delimiter=delimiter or ",")
        return
    lines = read_lines(path)
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, line.split(delimiter or "\t") if line else []


def read_columns(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()
) -> list[tuple[str, ...]]:
    """These columns of a small TSV without quotes.

    `optional` columns come after the others, and are "" where the table lacks them. Fields may be
    missing at the end of a row only if they are not asked for.
    """
    rows = read_rows(path, quoted=False)
    header = next(rows, (1, []))[1]
    remedy = "The first line must name the columns, separated by tabs"
    check_columns(columns, header, file=path, remedy=remedy)
    positions = [header.index(name) for name in columns]
    positions += [header.index(name) if name in header else -1 for name in optional]
    last = max(positions, default=-1)
    picked = []
    for number, fields in rows:
        if not fields:
            continue
        if len(fields) <= last:
            raise InputError(
                f"{len(fields)} fields, where the header has {len(header)}", file=path, row=number,
                remedy="Fields are separated by tabs, and quotes are part of the text",
            )  # fmt: skip
        fields.append("")  # what a position of -1 leads to
        picked.append(tuple(fields[position] for position in positions))
    return picked


# A table of the user's, in any encoding


class Delimited:
    """A file of fields between delimiters, which may be quoted and then hold line ends."""

    def __init__(self, path: Path, format: str, delimiter: str, reading: Reading) -> None:
        reading.refuse("sheet", format=format.upper())
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise UsageError(
                "the delimiter must be one character, or tab",
                values=repr(delimiter),
                message=f"--delimiter is {delimiter!r}: it must be one character, or tab",
            )
        self.name, self.format, self.delimiter = path.name, format, delimiter
        self._path, self._keep, self._limits = path, reading.keep_bad_rows, reading.limits
        self.marked, encoding = _encoding(path, reading.encoding)
        self._records = Records(
            path, delimiter=delimiter, encoding=encoding, remedies=_REMEDIES, limits=reading.limits
        )
        self._given = 0  # rows so far
        header = next(iter(self._records), None)
        if header is None:
            raise InputError("it is empty", file=path, remedy="It needs a header and rows")
        self.header = tuple(header[1])

    def fingerprint(self) -> str:
        return file_fingerprint(self._path)

    def size(self) -> int:
        done = self._records.done
        return int(self._given * self._path.stat().st_size / done) if done else 0

    def check(self) -> None:
        # Only rows that are filled up to the width of the header take more than the file.
        size = self._path.stat().st_size
        if self._keep and size // len("a\n") * len(self.header) > self._limits.most(size):
            deque(self.rows(), maxlen=0)

    def rows(self, skip: int = 0) -> Iterator[Row]:
        width, given, meter = len(self.header), 0, Meter(self._path, self._limits)
        self._given = self._records.done = 0
        records = iter(self._records)
        next(records)
        for number, fields in records:
            if not fields:  # a blank line is no row, unless a row is but one field
                if width > 1:
                    continue
                fields = [""]
            self._given = given = given + 1
            meter.add(max(width - len(fields), 0), number)
            if given > skip:
                yield fitted(
                    fields, width, path=self._path, row=number, keep=self._keep,
                    delimiter=self.delimiter,
                )  # fmt: skip

    def hint(self) -> str:
        """What may be wrong where a column is missing."""
        if len(self.header) == 1:
            for delimiter in _LIKELY:
                if delimiter in self.header[0]:
                    shown = "'\\t'" if delimiter == "\t" else f"'{delimiter}'"
                    return f"Its fields may be separated otherwise: try --delimiter {shown}"
        return ""


def open_csv(path: Path, reading: Reading) -> Delimited:
    return Delimited(path, "csv", reading.delimiter or ",", reading)


def open_tsv(path: Path, reading: Reading) -> Delimited:
    return Delimited(path, "tsv", reading.delimiter or "\t", reading)


def open_delimited(path: Path, reading: Reading) -> Delimited:
    if reading.delimiter is None:
        remedy = "Name what is between its fields with --delimiter, as in: ';'"
        raise UsageError("the ending does not tell the delimiter", where=path, remedy=remedy)
    return Delimited(path, "csv", reading.delimiter, reading)


def _unmarked(start: bytes) -> str:
    """UTF-16 without a mark has a zero beside the first letter of the header."""
    zeros = [byte == 0 for byte in start[:2]]
    if zeros == [False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False] else "utf-8"


def _encoding(path: Path, named: str | None) -> tuple[bool, str]:
    """Whether the file starts with a byte order mark, and its encoding."""
    with path.open("rb") as stream:
        start = stream.read(4)
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)
    if named is None:
        return marked is not None, marked or _unmarked(start)
    try:
        known = codecs.lookup(named).name
        io.TextIOWrapper(io.BytesIO(), known)  # an error for what is no encoding of text
        if known.replace("_", "-") in _NO_TABLES:
            raise LookupError
    except LookupError as error:
        known = "as in utf-8, utf-16, cp1252, latin-1"
        raise UsageError(
            f"there is no such encoding: {known}",
            values=repr(named),
            message=f"no encoding is called {named!r}: {known}",
        ) from error
    if known == "utf-8" and marked == "utf-8-sig":
        known = marked
    return marked is not None, known
