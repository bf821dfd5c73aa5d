"""Sheets of a workbook. Formulas are not run: their last results are read."""

from __future__ import annotations

import contextlib
import datetime
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import openpyxl

from medcoder.errors import InputError
from medcoder.tables.base import Reading, Row, file_fingerprint, fitted

_BROKEN = (zipfile.BadZipFile, KeyError, ValueError, OSError, SyntaxError, TypeError)


class Sheet:
    """One sheet; its first row is the header."""

    format = "xlsx"

    def __init__(self, file: Path, reading: Reading) -> None:
        reading.refuse("encoding", "delimiter", format="a workbook")
        self.name = file.name
        self._file, self._keep, self._sheet = file, reading.keep_bad_rows, reading.sheet
        first = next(self.cells(), None)
        header = _trimmed(first or ())
        if not header:
            raise InputError("its first row is empty", file=file, row=1, remedy="Give it a header")
        self.header = tuple(as_text(cell) for cell in header)

    def fingerprint(self) -> str:
        return file_fingerprint(self._file)

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
                fields, width, file=str(self._file), row=number, keep=self._keep, delimiter="\t"
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
                book = openpyxl.load_workbook(self._file, read_only=True, data_only=True)
        except _BROKEN as error:
            raise InputError(
                f"it cannot be read as a workbook: {error}", file=self._file,
                remedy="Save it again as .xlsx without a password",
            ) from error  # fmt: skip
        try:
            if self._sheet is not None and self._sheet not in book.sheetnames:
                raise InputError(
                    f"no sheet is called {self._sheet!r}", file=self._file,
                    remedy=f"There are: {', '.join(book.sheetnames)}",
                )  # fmt: skip
            sheet = book[self._sheet or book.sheetnames[0]]
            sheet.reset_dimensions()  # what the file says of its size is often wrong
            yield sheet
        finally:
            book.close()


def open_xlsx(file: Path, reading: Reading) -> Sheet:
    return Sheet(file, reading)


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
    last = max((place for place, cell in enumerate(cells) if cell is not None), default=-1)
    return cells[: last + 1]
