"""A project as a table: the columns of the input, then the review columns. CSV, XLSX, Parquet.

A row whose cell is split comes once for each target, with the text of its part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medcoder.files import replacing
from medcoder.mapping.columns import Column, Value, export_columns, unique_names, values
from medcoder.mapping.formats import HISTORY, Cells, Format, Seen, many, rows
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import CANDIDATE_KEYS, TermMapping
from medcoder.tables.write import TextWriter
from medcoder.types import Attribute, Progress

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT = "a row for each, its text in the column part"
NO_SCORES = "scores and matched terms of candidates are not in the file"
_BATCH = 10_000  # rows of Parquet at a time


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


def _records(project: Project, seen: Seen, progress: Progress | None) -> Iterator[TermMapping]:
    for mapping in rows(project, progress):
        seen(mapping)
        yield from mapping.records()


def export_csv(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write UTF-8, quoted as RFC 4180 has it, a row for each row of the input."""
    layout, cell, seen = _layout(project), Cells(), Seen()
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        table = TextWriter(stream, line_end="\r\n")
        table.row([cell(name) for name in layout.header])
        for mapping in _records(project, seen, progress):
            table.row(
                [
                    cell(value) if isinstance(value, str) else "" if value is None else f"{value:g}"
                    for value in layout.values(mapping)
                ]
            )
    return [HISTORY, NO_SCORES, *seen.split(SPLIT, offered=True), *cell.notes()]


def export_xlsx(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write a row for each row of the input; what does not fit in a sheet goes on in the next."""
    from medcoder.tables.xlsx import LONGEST, ROWS, SheetWriter

    layout, cell, seen = _layout(project), Cells(), Seen()
    with replacing(path) as partial:
        writer = SheetWriter(layout.header, title="mapping", guard=cell, frozen=True)
        try:
            for mapping in _records(project, seen, progress):
                writer.row(layout.values(mapping))
            writer.save(partial)
        finally:
            writer.close()
    notes = [HISTORY, NO_SCORES, *seen.split(SPLIT, offered=True), *cell.notes()]
    if writer.sheets > 1:
        notes.append(f"the rows are spread over {writer.sheets} sheets, {ROWS:,} rows each")
    if writer.cut:
        notes.append(f"{many(writer.cut, 'cell')} longer than {LONGEST:,} characters: cut")
    if writer.returns:
        notes.append(f"carriage returns became line feeds in {many(writer.returns, 'cell')}")
    if writer.cleaned:
        notes.append(f"control characters were taken out of {many(writer.cleaned, 'cell')}")
    return notes


def export_parquet(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write a row for each row of the input; codes and candidates are nested columns.

    The columns of the input are strings.
    """
    import pyarrow as pa

    from medcoder.tables.parquet import from_rows, open_writer

    layout, seen = _layout(project), Seen()
    ours = [  # candidates are a nested column instead of other_1, other_2...
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
    with replacing(path) as partial, open_writer(partial, schema) as writer:
        mappings = _records(project, seen, progress)
        while batch := list(islice(mappings, _BATCH)):
            made = [[*layout.values(mapping), *_nested(mapping)] for mapping in batch]
            writer.write_table(from_rows(made, schema))
    return [HISTORY, *seen.split(SPLIT, offered=True)]


def _nested_types() -> tuple[pa.DataType, pa.DataType]:
    """Types of the codes and of the candidates of a row."""
    import pyarrow as pa

    codes = pa.list_(pa.struct({"vocabulary": pa.string(), "code": pa.string()}))
    attribute = pa.struct({name: pa.string() for name in Attribute._fields})
    kinds = {
        **dict.fromkeys(("cosine", "score", "confidence"), pa.float64()),
        "codes": codes,
        "attributes": pa.list_(attribute),
        "span": pa.list_(pa.int64()),
        "twins": pa.list_(pa.string()),
    }
    return codes, pa.list_(pa.struct({key: kinds.get(key, pa.string()) for key in CANDIDATE_KEYS}))


def _nested(mapping: TermMapping) -> Iterator[Any]:
    target = mapping.target
    yield [code._asdict() for code in target.codes] if target else []
    yield [match.as_dict(CANDIDATE_KEYS) for match in mapping.candidates]


CSV = Format(ending=".csv", export=export_csv)
PARQUET = Format(ending=".parquet", export=export_parquet)
XLSX = Format(ending=".xlsx", export=export_xlsx, extra="tables")
