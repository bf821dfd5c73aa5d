"""A workbook for Excel and the like, written row by row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from medcoder.files import replacing
from medcoder.mapping.exports.columns import Value, columns_of, values_of
from medcoder.mapping.exports.common import HISTORY, Cells, many, rows
from medcoder.mapping.store import Project
from medcoder.progress import Progress

ROWS = 1_048_576  # of a sheet, at most
LONGEST = 32_767  # characters of a cell, at most


def export(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write a row for each row of the input; what does not fit in a sheet goes on in the next."""
    columns, book = columns_of(project), Workbook(write_only=True)
    with replacing(path) as partial:
        writer = _Writer(book, (*columns.given, *columns.ours))
        try:
            for mapping in rows(project, progress):
                writer.add(values_of(mapping, columns))
            book.save(partial)
        finally:
            writer.close()
    return [HISTORY, "scores and matched terms of candidates are not in the file", *writer.notes()]


class _Writer:
    """Sheets with the same header."""

    def __init__(self, book: Workbook, names: tuple[str, ...]) -> None:
        self._book, self._names, self._safe = book, names, Cells()
        self._sheets = self._cut = self._cleaned = 0
        self._start()

    def add(self, values: Iterable[Value]) -> None:
        if self._used == ROWS:
            self._start()
        self._sheet.append([self._cell(value) for value in values])
        self._used += 1

    def close(self) -> None:
        """Let go of the temporary files of sheets that were not saved."""
        for sheet in self._book.worksheets:
            if not sheet.closed:
                sheet.close()
                sheet._writer.cleanup()

    def notes(self) -> list[str]:
        notes = self._safe.notes()
        if self._sheets > 1:
            notes.append(f"the rows are spread over {self._sheets} sheets, {ROWS:,} rows each")
        if self._cut:
            notes.append(f"{many(self._cut, 'cell')} longer than {LONGEST:,} characters: cut")
        if self._cleaned:
            notes.append(f"control characters were taken out of {many(self._cleaned, 'cell')}")
        return notes

    def _start(self) -> None:
        self._sheets += 1
        self._sheet = self._book.create_sheet(f"mapping {self._sheets}".removesuffix(" 1"))
        self._sheet.freeze_panes = "A2"
        self._sheet.append([self._cell(name) for name in self._names])
        self._used = 1

    def _cell(self, value: Value) -> Value:
        if not isinstance(value, str):
            return value
        text = ILLEGAL_CHARACTERS_RE.sub("", value)
        self._cleaned += text != value
        text = self._safe(text)
        self._cut += len(text) > LONGEST
        return text[:LONGEST]
