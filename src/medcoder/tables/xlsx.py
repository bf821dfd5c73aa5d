"""Sheets of a workbook, read and written. Formulas are not run: their last results are read."""

from __future__ import annotations

import contextlib
import datetime
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openpyxl
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from medcoder.errors import InputError
from medcoder.tables import Reading, Row, file_fingerprint, fitted

ROWS = 1_048_576  # of a sheet, at most
LONGEST = 32_767  # characters of a cell, at most
_BROKEN = (zipfile.BadZipFile, KeyError, ValueError, OSError, SyntaxError, TypeError)


class Sheet:
    """One sheet; its first row is the header."""

    format = "xlsx"

    def __init__(self, path: Path, reading: Reading) -> None:
        reading.refuse("encoding", "delimiter", format="a workbook")
        self.name = path.name
        self._path, self._keep, self._sheet = path, reading.keep_bad_rows, reading.sheet
        first = next(self.cells(), None)
        header = _trimmed(first or ())
        if not header:
            raise InputError("its first row is empty", file=path, row=1, remedy="Give it a header")
        self.header = tuple(as_text(cell) for cell in header)

    def fingerprint(self) -> str:
        return file_fingerprint(self._path)

    def size(self) -> int:
        return 0

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
        with self._opened() as sheet:
            empty: list[tuple[Any, ...]] = []
            for cells in sheet.iter_rows(values_only=True):
                if any(cell is not None for cell in cells):
                    yield from empty
                    empty.clear()
                    yield cells
                else:
                    empty.append(())

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with warnings.catch_warnings():  # of styles and extensions, which are not read
                warnings.simplefilter("ignore")
                book = openpyxl.load_workbook(self._path, read_only=True, data_only=True)
        except _BROKEN as error:
            raise InputError(
                "it cannot be read as a workbook", file=self._path, values=error,
                remedy="Save it again as .xlsx without a password",
            ) from error  # fmt: skip
        try:
            if self._sheet is not None and self._sheet not in book.sheetnames:
                raise InputError(
                    "there is no such sheet", file=self._path, values=repr(self._sheet),
                    remedy=f"There are: {', '.join(book.sheetnames)}",
                )  # fmt: skip
            sheet = book[self._sheet or book.sheetnames[0]]
            sheet.reset_dimensions()  # what the file says of its size is often wrong
            yield sheet
        finally:
            book.close()


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
    become `instead`, and texts longer than LONGEST are cut; both are counted.
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
        self.sheets = self.cut = self.cleaned = 0
        self._start()

    def row(self, values: Iterable[Any]) -> None:
        if self._used == ROWS:
            self._start()
        self._sheet.append([self._cell(value) for value in values])
        self._used += 1

    def save(self, path: Path) -> None:
        self._book.save(path)

    def close(self) -> None:
        """Let go of the temporary files of sheets that were not saved."""
        for sheet in self._book.worksheets:
            if not sheet.closed:
                sheet.close()
                sheet._writer.cleanup()

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
        text = ILLEGAL_CHARACTERS_RE.sub(self._instead, value)
        self.cleaned += text != value
        text = self._guard(text)
        self.cut += len(text) > LONGEST
        return text[:LONGEST]
