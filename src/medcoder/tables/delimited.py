"""Text with a delimiter: CSV, TSV and others, in any encoding."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from pathlib import Path

from medcoder.errors import InputError, UsageError
from medcoder.tables.base import Reading, Row, file_fingerprint, fitted

# Longest first: the mark of UTF-16 is the start of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LONGEST = 10_000_000  # characters of a field; the default of 131,072 is too few for some notes
_BLOCK = 1000  # rows between two looks at how much is read
_LIKELY = (";", "\t", "|", ",")


class Delimited:
    """A file of fields between delimiters, which may be quoted and then hold line ends."""

    def __init__(self, file: Path, format: str, delimiter: str, reading: Reading) -> None:
        self.name, self.format, self.delimiter = file.name, format, delimiter
        self._file, self._keep = file, reading.keep_bad_rows
        self._given = self._read = 0  # rows and bytes so far
        self.marked, self._encoding = _encoding(file, reading.encoding)
        header = next(self._records(), None)
        if header is None:
            raise InputError("it is empty", file=file, remedy="It needs a header and rows")
        self.header = tuple(header[1])

    def fingerprint(self) -> str:
        return file_fingerprint(self._file)

    def size(self) -> int:
        return int(self._given * self._file.stat().st_size / self._read) if self._read else 0

    def rows(self, skip: int = 0) -> Iterator[Row]:
        width, given = len(self.header), 0
        self._given = self._read = 0
        records = self._records()
        next(records)
        for number, fields in records:
            if not fields:  # a blank line is no row, unless a row is but one field
                if width > 1:
                    continue
                fields = [""]
            given += 1
            self._given = given
            if given > skip:
                yield fitted(
                    fields, width, file=str(self._file), row=number, keep=self._keep,
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

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Rows with their numbers, the header being 1."""
        longest = csv.field_size_limit(_LONGEST)
        number = 0
        try:
            with (
                self._file.open("rb") as stored,
                io.TextIOWrapper(stored, encoding=self._encoding, newline="") as stream,
            ):
                reader = csv.reader(stream, delimiter=self.delimiter, strict=True)
                for number, fields in enumerate(reader, 1):
                    if not number % _BLOCK:
                        self._read = stored.tell()
                    yield number, fields
        except UnicodeError as error:
            raise self._undecodable(number) from error
        except csv.Error as error:
            raise InputError(
                f"broken quotes: {error}", file=self._file, row=number + 1,
                remedy="Close every quote and double those inside a quoted field",
            ) from error  # fmt: skip
        finally:
            csv.field_size_limit(longest)

    def _undecodable(self, before: int) -> InputError:
        """Which line it is: text is decoded in blocks, far ahead of the row at hand."""
        line, remedy = before + 1, "Name its encoding with --encoding, as in: --encoding cp1252"
        if self._encoding in ("utf-8", "utf-8-sig"):
            with self._file.open("rb") as stream:
                for line, content in enumerate(stream, 1):
                    try:
                        content.decode(self._encoding)
                    except UnicodeDecodeError as error:
                        found = content[error.start]
                        what = f"byte {error.start + 1} of the line, 0x{found:02x}, is not UTF-8"
                        if b"\0" in content[:100]:
                            remedy = "It looks like UTF-16: try --encoding utf-16-le"
                        return InputError(what, file=self._file, row=line, remedy=remedy)
        what = f"it is not in the encoding {self._encoding}"
        return InputError(what, file=self._file, row=line, remedy=remedy)


def open_csv(file: Path, reading: Reading) -> Delimited:
    return _opened(file, "csv", reading.delimiter or ",", reading)


def open_tsv(file: Path, reading: Reading) -> Delimited:
    return _opened(file, "tsv", reading.delimiter or "\t", reading)


def open_text(file: Path, reading: Reading) -> Delimited:
    if reading.delimiter is None:
        raise UsageError(f"{file}: name what is between its fields with --delimiter, as in: ';'")
    return _opened(file, "csv", reading.delimiter, reading)


def _opened(file: Path, format: str, delimiter: str, reading: Reading) -> Delimited:
    reading.refuse("sheet", format=format.upper())
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UsageError(f"--delimiter is {delimiter!r}: it must be one character, or tab")
    return Delimited(file, format, delimiter, reading)


def _unmarked(start: bytes) -> str:
    """UTF-16 without a mark has a zero beside the first letter of the header."""
    zeros = [byte == 0 for byte in start[:2]]
    if zeros == [False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False] else "utf-8"


def _encoding(file: Path, named: str | None) -> tuple[bool, str]:
    """Whether the file starts with a byte order mark, and its encoding."""
    with file.open("rb") as stream:
        start = stream.read(4)
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)
    if named is None:
        return marked is not None, marked or _unmarked(start)
    try:
        known = codecs.lookup(named).name
    except LookupError as error:
        raise UsageError(
            f"no encoding is called {named!r}: as in utf-8, utf-16, cp1252, latin-1"
        ) from error
    if known == "utf-8" and marked == "utf-8-sig":
        known = marked
    return marked is not None, known
