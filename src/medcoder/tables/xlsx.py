"""Sheets of a workbook, read and written. Formulas are not run: their last results are read."""

from __future__ import annotations

import contextlib
import datetime
import io
import logging
import lzma
import re
import warnings
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import defusedxml  # noqa: F401  # openpyxl takes it where it is there, and refuses entities then
import openpyxl
from openpyxl.reader.excel import ExcelReader
from openpyxl.utils import get_column_letter
from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser
from openpyxl.writer.excel import ExcelWriter

from medcoder.errors import InputError, TooLarge
from medcoder.tables import Reading, Row, file_fingerprint, fitted
from medcoder.tables.limits import ROW, Limits, Meter

ROWS = 1_048_576  # of a sheet, at most
LONGEST = 32_767  # characters of a cell, at most
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML
WIDTH = 16_384  # columns of a sheet, at most
_PART = 16 << 20  # bytes of XML of a row, or of a part that is read as a whole, such as the styles
_SHARED = len('<c t="s"><v>0</v></c>')  # characters of a cell that a long text may stand for
_NAMES = 16 << 20  # bytes of the list of what is in the file
# What a damaged file may raise: of the archive, of XML, and of openpyxl, which checks little.
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, SyntaxError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError,
    AssertionError,
)  # fmt: skip
LOGGER = logging.getLogger(__name__)


class Sheet:
    """One sheet; its first row is the header."""

    format = "xlsx"

    def __init__(self, path: Path, reading: Reading) -> None:
        reading.refuse("encoding", "delimiter", format="a workbook")
        self.name = path.name
        self._path, self._keep, self._sheet = path, reading.keep_bad_rows, reading.sheet
        self._limits = reading.limits
        self._warned, self._reach = False, 0
        first = next(self.cells(), None)
        header = _trimmed(first or ())
        if not header:
            raise InputError("its first row is empty", file=path, row=1, remedy="Give it a header")
        self.header = tuple(as_text(cell) for cell in header)
        self._reach += ROWS * (ROW + len(self.header))  # rows may be far apart

    def fingerprint(self) -> str:
        return file_fingerprint(self._path)

    def size(self) -> int:
        return 0

    def check(self) -> None:
        if self._reach > self._limits.most(self._path.stat().st_size):
            deque(self.cells(), maxlen=0)

    def rows(self, skip: int = 0) -> Iterator[Row]:
        width, given = len(self.header), 0
        for number, cells in enumerate(self.cells(), 1):
            if number == 1:
                continue
            given += 1
            if given <= skip:
                continue
            fields = [as_text(cell) for cell in _trimmed(cells)]
            fields += [""] * (width - len(fields))
            yield fitted(
                fields, width, path=self._path, row=number, keep=self._keep, delimiter="\t"
            )

    def cells(self) -> Iterator[tuple[Any, ...]]:
        """Values of each row with the header, without the empty ones after the last."""
        meter, number, width = Meter(self._path, self._limits), 0, 0
        try:
            with (
                _Handle(self._path) as handle,
                _Archive(handle, self._path, self._limits) as archive,
            ):
                sheet = self._opened(handle, archive)
                with sheet._get_source() as source:
                    parser = _Parser(sheet, source)
                    for seen, (row, cells) in enumerate(parser.parse(), 1):
                        archive.since = 0
                        if max(row, seen) > ROWS:
                            raise _outside(self._path, "rows", ROWS, max(row, seen))
                        values = _values(cells, self._path, row)
                        if not values or row <= number:  # one that comes twice is left out
                            continue
                        for between in range(number + 1, row):
                            meter.add(ROW + width, between)
                            yield ()
                        width = width or len(values)
                        number = row
                        meter.add(ROW + _characters(values) + max(width, len(values)), row)
                        yield values
                self._tell(parser)
        except _BROKEN as error:
            values_ = str(error).partition("\n")[0][:300] or type(error).__name__
            raise InputError(
                "it cannot be read as a workbook", file=self._path, values=values_,
                row=number + 1 if number else None,
                remedy="Save it again as .xlsx without a password",
            ) from error  # fmt: skip

    def _opened(self, handle: _Handle, archive: _Archive) -> Any:
        with warnings.catch_warnings():  # of styles and extensions, which are not read
            warnings.simplefilter("ignore")
            reader = ExcelReader(handle, read_only=True, data_only=True, keep_links=False)
            reader.archive = archive
            reader.read()
        book = reader.wb
        names = [sheet.title for sheet in book.worksheets]
        if not names or (self._sheet is not None and self._sheet not in names):
            raise InputError(
                "there is no such sheet", file=self._path, values=repr(self._sheet),
                remedy=f"There are: {', '.join(names) or 'none'}",
            )  # fmt: skip
        sheet = book[self._sheet or names[0]]
        if not self._reach:
            size = archive.getinfo(sheet._worksheet_path).file_size
            longest = max(map(len, sheet._shared_strings), default=0)
            self._reach = size + size // _SHARED * longest
        return sheet

    def _tell(self, parser: _Parser) -> None:
        """Say once that some cells are empty only because nobody has worked them out."""
        if parser.unset and not self._warned:
            self._warned = True
            LOGGER.warning(
                "%s: %s without a value, read as empty; the first is %s. Open the file in a "
                "spreadsheet and save it, so that formulas have their results",
                self.name,
                f"{parser.unset:,} formula{'s' if parser.unset > 1 else ''}",
                parser.first,
            )


class _Parser(WorkSheetParser):  # type: ignore[misc]  # openpyxl has no types
    """Cells of a sheet; counts formulas whose last result is not in the file."""

    def __init__(self, sheet: Any, source: IO[bytes]) -> None:
        book = sheet.parent
        super().__init__(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        self.unset, self.first = 0, ""

    def parse_cell(self, element: Any) -> dict[str, Any]:
        cell: dict[str, Any] = super().parse_cell(element)
        if cell["value"] is None and element.find(FORMULA_TAG) is not None:
            self.unset += 1
            self.first = self.first or f"{get_column_letter(cell['column'])}{cell['row']}"
        return cell


class _Archive(zipfile.ZipFile):
    """The parts of a workbook; what is larger than is allowed is an error.

    A part gives no more bytes than the list of parts says, so that list can be gone by.
    """

    def __init__(self, handle: _Handle, path: Path, limits: Limits) -> None:
        self._path, self._limits = path, limits
        self.since = 0  # bytes that were unpacked since the last row
        super().__init__(handle)
        Meter(path, limits).check(sum(part.file_size for part in self.infolist()))

    def open(self, name: Any, *args: Any, **options: Any) -> Any:
        part = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        streamed = "/worksheets/" in f"/{part.filename}"
        most = self._limits.held if "sharedStrings" in part.filename else _PART
        if not streamed and part.file_size > most:
            self._limits.check("held", max(part.file_size, self._limits.held + 1), file=self._path)
        stream = super().open(part, *args, **options)
        return _Counted(stream, self) if streamed else stream

    def count(self, data: bytes) -> bytes:
        self.since += len(data)
        if self.since > _PART:
            self._limits.check("row", max(self.since, self._limits.row + 1), file=self._path)
        return data


class _Handle(io.FileIO):
    """The file. The list of its parts is read at once, so that must be small."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)

    def read(self, size: int | None = -1) -> Any:
        if size is not None and size > _NAMES:
            raise zipfile.BadZipFile("the list of its parts is too large")
        return super().read(size)


class _Counted:
    """A sheet as it is unpacked: nothing holds more of it than a row."""

    def __init__(self, stream: IO[bytes], archive: _Archive) -> None:
        self._stream, self._archive = stream, archive

    def read(self, size: int = -1) -> bytes:
        return self._archive.count(self._stream.read(size))

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _values(cells: list[dict[str, Any]], path: Path, row: int) -> tuple[Any, ...]:
    """The values of a row in their places, without the empty ones at the end."""
    width = max((cell["column"] for cell in cells if cell["value"] is not None), default=0)
    if width > WIDTH:
        raise _outside(path, "columns", WIDTH, width)
    values: list[Any] = [None] * width
    for cell in cells:
        if cell["value"] is not None:
            values[cell["column"] - 1] = cell["value"]
    return tuple(values)


def _outside(path: Path, what: str, limit: int, value: int) -> TooLarge:
    return TooLarge(
        f"a sheet has {limit:,} {what} at most",
        file=path,
        values=f"it goes to {value:,}",
        remedy="Save it again from a spreadsheet",
        limit=limit,
    )


def _characters(values: Sequence[Any]) -> int:
    return sum(len(value) if isinstance(value, str) else 8 for value in values)


def as_text(cell: Any) -> str:
    """A cell as a person reads it.

    >>> as_text(12.0), as_text(True), as_text(None), as_text(datetime.date(2026, 1, 2))
    ('12', 'TRUE', '', '2026-01-02')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)


def _trimmed(cells: Sequence[Any]) -> Sequence[Any]:
    """Without the empty cells at the end."""
    last = max((position for position, cell in enumerate(cells) if cell is not None), default=-1)
    return cells[: last + 1]


class SheetWriter:
    """A workbook written row by row; what does not fit in a sheet goes on in the next.

    `guard` gets every text before it is written. Control characters, which a workbook cannot hold,
    become `instead`, carriage returns become line feeds, and texts longer than LONGEST are cut; all
    are counted.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        title: str,
        guard: Callable[[str], str],
        instead: str = "",
        frozen: bool = False,
    ) -> None:
        self._book = openpyxl.Workbook(write_only=True)
        self._header, self._title, self._frozen = header, title, frozen
        self._guard, self._instead = guard, instead
        self.sheets = self.cut = self.cleaned = self.returns = 0
        self._start()

    def row(self, values: Iterable[Any]) -> None:
        if self._used == ROWS:
            self._start()
        self._sheet.append([self._cell(value) for value in values])
        self._used += 1

    def save(self, path: Path) -> None:
        # As the book would do it, but an archive that could not be written is let go of: when it is
        # forgotten otherwise, it tries again and shows a traceback.
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            ExcelWriter(self._book, archive).save()

    def close(self) -> None:
        """Let go of the temporary files of sheets that were not saved."""
        for sheet in self._book.worksheets:
            writer = sheet._writer
            if writer is None:
                continue
            if not sheet.closed:
                with contextlib.suppress(OSError, StopIteration):  # a full disk was told before
                    sheet.close()
            if Path(writer.out).exists():
                writer.cleanup()

    def _start(self) -> None:
        self.sheets += 1
        self._sheet = self._book.create_sheet(f"{self._title} {self.sheets}".removesuffix(" 1"))
        if self._frozen:
            self._sheet.freeze_panes = "A2"
        self._sheet.append([self._cell(name) for name in self._header])
        self._used = 1

    def _cell(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = _ILLEGAL.sub(self._instead, value)
        self.cleaned += text != value
        if "\r" in text:  # readers of XML make line feeds of them
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            self.returns += 1
        text = self._guard(text)
        self.cut += len(text) > LONGEST
        return text[:LONGEST]
