"""The table of results: every row of the input in its order, with what it is mapped to."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from medcoder.files import replacing
from medcoder.mapping import reading
from medcoder.mapping.adding import Recent
from medcoder.mapping.base import Mapping
from medcoder.mapping.project_table import Kept
from medcoder.mapping.store import Project
from medcoder.progress import Progress
from medcoder.tables import Table
from medcoder.tables.write import safe

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Cells = tuple[str | float | None, ...]
_BATCH = 5000  # rows at a time
_NAME = "mapped"
_LONGEST = 32_767  # characters of a cell of a workbook
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def columns(header: Sequence[str], top: int) -> tuple[str, ...]:
    """Names of the columns that are added; with "mapped_" before them if one is taken.

    >>> columns(["text"], 3)
    ('concept', 'name', 'code', 'confidence', 'status', 'other_1', 'other_2')
    """
    names: tuple[str, ...] = ("concept", "name", "code", "confidence", "status")
    names = (*names, *(f"other_{place}" for place in range(1, top)))
    while set(names) & set(header):
        names = tuple(f"mapped_{name}" for name in names)
    return names


def cells(mapping: Mapping, top: int) -> Cells:
    """Concept, name, codes, confidence, status, and the other candidates.

    Where nobody decided yet, the concept is the first candidate; where the machine abstained, or a
    person found no match, there is none.
    """
    chosen: Any = mapping.target
    if chosen is None and mapping.status == "review":
        chosen = mapping.candidates[0]
    concept, name, codes = (chosen.concept, chosen.name, chosen.codes) if chosen else ("", "", ())
    found = (one for one in mapping.candidates if one.concept == concept)
    sure = next((one.confidence for one in found), None)
    others = [
        f"{one.concept} {one.name} ({one.confidence:.2f})"
        for one in mapping.candidates
        if one.concept != concept
    ][: top - 1]
    others += [""] * (top - 1 - len(others))
    sure = None if sure is None else round(sure, 4)
    return (concept, name, "|".join(code.curie for code in codes), sure, mapping.status, *others)


def stream(project: Project) -> Iterator[tuple[tuple[str, ...], Cells]]:
    """Fields of every row and the cells that are added to them."""
    top = int(project.meta["top"])
    known: Recent[int, Cells] = Recent()
    with project.snapshot() as base:
        found = base.execute("SELECT term, fields FROM rows ORDER BY number")
        while some := found.fetchmany(_BATCH):
            new = sorted({term for term, _ in some} - known.keys())
            fresh = dict(_of_terms(base, new, top))
            for term, fields in some:
                added = fresh.get(term) or known.recall(term)
                assert added is not None
                yield tuple(json.loads(fields)), added
            for term, added in fresh.items():
                known.keep(term, added)


def _of_terms(base: Any, terms: Sequence[int], top: int) -> Iterator[tuple[int, Cells]]:
    for start in range(0, len(terms), reading.VARIABLES):
        some = terms[start : start + reading.VARIABLES]
        where = f"WHERE t.id IN ({','.join('?' * len(some))})"
        firsts = dict(base.execute(f"SELECT t.first, t.id FROM terms t {where}", some))
        for mapping in reading.rows(base, terms=True, where=where, values=some):
            yield firsts[mapping.row.number], cells(mapping, top)


def place(folder: Path, format: str) -> Path:
    """The file of the results of an input in this format."""
    return folder / f"{_NAME}.{'parquet' if format == 'frame' else format}"


def write(project: Project, table: Table, folder: Path, progress: Progress | None = None) -> Path:
    """Write the results in the format of the input; the columns of the input stay as they are."""
    path = place(folder, table.format)
    added = columns(table.header, int(project.meta["top"]))
    total = len(project)
    with replacing(path) as partial:
        write_them = {".parquet": _parquet, ".xlsx": _xlsx}.get(path.suffix, _text)
        for done in write_them(project, table, added, partial):
            if progress is not None:
                progress("writing", done, total)
    return path


def _text(project: Project, table: Any, added: Sequence[str], path: Path) -> Iterator[int]:
    encoding = "utf-8-sig" if table.marked else "utf-8"
    with path.open("w", encoding=encoding, newline="") as out:
        writer = csv.writer(out, delimiter=table.delimiter, lineterminator="\n")
        writer.writerow([safe(name) for name in (*table.header, *added)])
        rows, done = stream(project), 0
        while some := list(islice(rows, _BATCH)):
            writer.writerows(
                [safe(field) for field in fields] + [_as_text(cell) for cell in new]
                for fields, new in some
            )
            done += len(some)
            yield done


def _xlsx(project: Project, table: Any, added: Sequence[str], path: Path) -> Iterator[int]:
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("mapped")
    width = len(table.header)
    originals = table.cells()
    next(originals)
    sheet.append([_cell(name) for name in (*table.header, *added)])
    done = 0
    for (fields, new), cells_ in zip(stream(project), originals, strict=True):
        kept = [*cells_[:width], *[None] * (width - len(cells_))]
        if len(cells_) > width and any(cell is not None for cell in cells_[width:]):
            kept = list(fields)  # a broken row: its last field took what was too much
        sheet.append([_cell(cell) for cell in (*kept, *new)])
        done += 1
        if done % _BATCH == 0:
            yield done
    book.save(path)
    yield done


def _parquet(project: Project, table: Any, added: Sequence[str], path: Path) -> Iterator[int]:
    from pyarrow import parquet

    schema = _schema(table.schema, added)
    done = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in _batches(project, table, added):
            writer.write_batch(batch)
            done += batch.num_rows
            yield done


def _batches(project: Project, table: Any, added: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of the input with their types, and those that are added."""
    rows = stream(project)
    schema = _schema(table.schema, added)
    for batch in table.batches():
        some = [new for _, new in islice(rows, batch.num_rows)]
        new = [
            pa.array([row[place] for row in some], schema.field(len(table.header) + place).type)
            for place in range(len(added))
        ]
        yield pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)


def _schema(schema: pa.Schema, added: Sequence[str]) -> pa.Schema:
    for name in added:
        numeric = name.endswith("confidence")
        schema = schema.append(pa.field(name, pa.float64() if numeric else pa.string()))
    return schema.remove_metadata()


def _as_text(cell: str | float | None) -> str:
    return safe(cell) if isinstance(cell, str) else "" if cell is None else f"{cell:g}"


def _cell(value: Any) -> Any:
    """A workbook takes neither control characters nor very long texts."""
    return safe(_CONTROL.sub("\ufffd", value))[:_LONGEST] if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A table that is mapped: where its project and its results are, and the results as a frame."""

    path: Path  # of the project
    file: Path  # of the results
    source: Any
    table: Table

    def project(self) -> Project:
        """Open the project; close it after use."""
        return Project.open(self.path)

    def to_arrow(self) -> pa.Table:
        """The rows of the input with the columns that are added, as they stand now."""
        with self.project() as project:
            table: Any = self.table if hasattr(self.table, "batches") else Kept(project)
            added = columns(table.header, int(project.meta["top"]))
            schema = _schema(table.schema, added)
            return pa.Table.from_batches(_batches(project, table, added), schema=schema)

    def to_polars(self) -> pl.DataFrame:
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """As pandas; a frame of pandas keeps its index."""
        frame = self.to_arrow().to_pandas()
        if type(self.source).__module__.partition(".")[0] == "pandas":
            frame.index = self.source.index
        return frame
