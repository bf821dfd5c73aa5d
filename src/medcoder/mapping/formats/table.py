"""A project as one table: the columns of the input, then the review columns. CSV, XLSX, Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medcoder.files import replacing
from medcoder.mapping.columns import Column, Value, export_columns, unique_names, values
from medcoder.mapping.formats import Format
from medcoder.mapping.formats.notes import HISTORY, Cells, many, rows
from medcoder.mapping.project.records import TermMapping
from medcoder.mapping.project.store import Project
from medcoder.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from openpyxl import Workbook

ROWS = 1_048_576  # of a sheet, at most
LONGEST = 32_767  # characters of a cell of a workbook, at most
NO_SCORES = "scores and matched terms of candidates are not in the file"
_BATCH = 10_000  # rows of Parquet at a time
_CANDIDATE = ("concept", "name", "codes", "term", "cosine", "score", "confidence", "stage")


class _Layout(NamedTuple):
    given: tuple[str, ...]  # columns of the input
    names: tuple[str, ...]  # of ours
    columns: tuple[Column, ...]

    @property
    def header(self) -> tuple[str, ...]:
        return (*self.given, *self.names)

    def values(self, mapping: TermMapping) -> list[Value]:
        """One row of the table."""
        width = len(self.given)
        fields = [*mapping.row.fields[:width], *[""] * (width - len(mapping.row.fields))]
        return [*fields, *values(mapping, self.columns)]


def _layout(project: Project) -> _Layout:
    columns = export_columns(int(project.meta["top"]))
    names = unique_names((column.name for column in columns), project.header)
    return _Layout(project.header, names, columns)


def export_csv(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write UTF-8, quoted as RFC 4180 has it, a row for each row of the input."""
    layout, cell = _layout(project), Cells()
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(map(cell, layout.header))
        for mapping in rows(project, progress):
            table.writerow(
                cell(value) if isinstance(value, str) else "" if value is None else f"{value:g}"
                for value in layout.values(mapping)
            )
    return [HISTORY, NO_SCORES, *cell.notes()]


def export_xlsx(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write a row for each row of the input; what does not fit in a sheet goes on in the next."""
    from openpyxl import Workbook

    layout, book = _layout(project), Workbook(write_only=True)
    with replacing(path) as partial:
        writer = _SheetWriter(book, layout.header)
        try:
            for mapping in rows(project, progress):
                writer.add(layout.values(mapping))
            book.save(partial)
        finally:
            writer.close()
    return [HISTORY, NO_SCORES, *writer.notes()]


class _SheetWriter:
    """Sheets with the same header."""

    def __init__(self, book: Workbook, names: tuple[str, ...]) -> None:
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

        self._book, self._names, self._safe = book, names, Cells()
        self._illegal = ILLEGAL_CHARACTERS_RE
        self._sheets = self._cut = self._cleaned = 0
        self._start()

    def add(self, cells: Iterable[Value]) -> None:
        if self._used == ROWS:
            self._start()
        self._sheet.append([self._cell(value) for value in cells])
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
        text = self._illegal.sub("", value)
        self._cleaned += text != value
        text = self._safe(text)
        self._cut += len(text) > LONGEST
        return text[:LONGEST]


def export_parquet(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write a row for each row of the input; codes and candidates are nested columns.

    The columns of the input are strings.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    layout = _layout(project)
    ours = [  # candidates are one nested column instead of other_1, other_2...
        (name, column)
        for name, column in zip(layout.names, layout.columns, strict=True)
        if not column.name.startswith("other_")
    ]
    layout = _Layout(layout.given, *zip(*ours, strict=True))
    kinds = [pa.float64() if column.numeric else pa.string() for column in layout.columns]
    nested = unique_names(("codes", "candidates"), layout.given)
    schema = pa.schema(
        [
            *((name, pa.string()) for name in layout.given),
            *zip(layout.names, kinds, strict=True),
            *zip(nested, _nested_types(), strict=True),
        ]
    )
    with replacing(path) as partial, pq.ParquetWriter(partial, schema) as writer:
        mappings = rows(project, progress)
        while batch := list(islice(mappings, _BATCH)):
            made = [[*layout.values(mapping), *_nested(mapping)] for mapping in batch]
            arrays = [
                pa.array(cells, field.type)
                for cells, field in zip(zip(*made, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.table(arrays, schema=schema))
    return [HISTORY]


def _nested_types() -> tuple[pa.DataType, pa.DataType]:
    """Types of the codes and of the candidates of a row."""
    import pyarrow as pa

    codes = pa.list_(pa.struct({"vocabulary": pa.string(), "code": pa.string()}))
    numbers = ("cosine", "score", "confidence")
    parts = {name: pa.float64() if name in numbers else pa.string() for name in _CANDIDATE}
    return codes, pa.list_(pa.struct(parts | {"codes": codes}))


def _nested(mapping: TermMapping) -> Iterator[Any]:
    target = mapping.target
    yield [code._asdict() for code in target.codes] if target else []
    yield [match.as_dict(_CANDIDATE) for match in mapping.candidates]


CSV = Format(ending=".csv", export=export_csv)
PARQUET = Format(ending=".parquet", export=export_parquet)
XLSX = Format(ending=".xlsx", export=export_xlsx, extra="tables")
