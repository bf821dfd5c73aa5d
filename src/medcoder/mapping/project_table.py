"""The table of a project: the rows it has kept, and the table of results that is written of them.

Results are every row of the input in its order, with what it is mapped to. They lie beside the
project with the report; what people decide later makes them old.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from medcoder.errors import InputError
from medcoder.files import replacing
from medcoder.mapping.columns import Column, Value, result_columns, unique_names, values
from medcoder.mapping.project import Project, decisions, queries, stored
from medcoder.mapping.project.records import unknown
from medcoder.mapping.project.rows import Recent
from medcoder.mapping.project.schema import guarded
from medcoder.mapping.report import write_report
from medcoder.tables import Row, Table, file_fingerprint, grouped, open_table, row_length
from medcoder.tables.write import TextWriter, safe
from medcoder.types import Progress

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Cells = tuple[Value, ...]
_BATCH = 5000  # rows at a time
_NAME = "mapped"
_TYPED = ("frame", "parquet", "xlsx")  # formats with more than text in their cells


class ProjectTable:
    """The input as a project has kept it, for when the file is not at hand: all strings."""

    def __init__(self, project: Project) -> None:
        meta = project.meta
        self.name, self.format = str(meta["file"]), str(meta["format"])
        self.header = project.header
        self.delimiter, self.marked = str(meta["delimiter"]), bool(meta["marked"])
        self.schema = pa.schema([pa.field(name, pa.string()) for name in self.header])
        self._project, self._sha256 = project, str(meta["sha256"])

    def fingerprint(self) -> str:
        return self._sha256

    def size(self) -> int:
        return len(self._project)

    def check(self) -> None:
        """Its rows were counted when they came in."""

    def rows(self, skip: int = 0) -> Iterator[Row]:
        with self._project.snapshot() as base:
            query = "SELECT fields FROM rows WHERE number > ? ORDER BY number"
            for (fields,) in base.execute(query, [skip]):
                yield Row(stored.fields(fields, "rows"))

    def cells(self) -> Iterator[tuple[Any, ...]]:
        """The header and the rows, for a workbook."""
        yield self.header
        for row in self.rows():
            yield tuple(field or None for field in row.fields)

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows = self.rows()
        for batch in grouped(rows, _BATCH, row_length):
            fields = zip(*(row.fields for row in batch), strict=True)
            columns = [pa.array(column, pa.string()) for column in fields]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


class TypedProjectTable(ProjectTable):
    """The input with the types of its cells: the first columns of results from before."""

    def __init__(self, project: Project, results: Any) -> None:
        super().__init__(project)
        self._results, width = results, len(self.header)
        if hasattr(results, "schema"):
            self.schema = pa.schema([results.schema.field(position) for position in range(width)])

    def cells(self) -> Iterator[tuple[Any, ...]]:
        for cells in self._results.cells():
            yield cells[: len(self.header)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._results.batches():
            columns = batch.columns[: len(self.header)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


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
            table: Any = self.table if hasattr(self.table, "batches") else ProjectTable(project)
            added = _columns(project)
            schema = _schema(table, added)
            return pa.Table.from_batches(_batches(project, table, added, schema), schema=schema)

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


def write_results(
    project: Project, folder: str | Path | None = None, *, progress: Progress | None = None
) -> Path:
    """Write the table of results and the report again, with what was decided since.

    Needs neither the input nor the index. Gives the path of the table.

    folder: to write to, instead of that of the project, which may then be read-only
    """
    return write(project, _input_of(project), folder=folder, progress=progress)


def write(
    project: Project,
    table: Table,
    *,
    folder: str | Path | None = None,
    timing: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write results and report.

    folder: as of `write_results`
    timing: seconds, rows and strings of the run that has just ended; a run that had nothing left
        to do is not recorded
    """
    if timing and (timing["rows"] or timing["strings"]):
        project.put(timing=dict(timing))
    home = project.path.parent
    folder = home if folder is None else Path(folder)
    own = folder.resolve() == home.resolve()
    if own and (refusal := project.refusal) is not None:
        remedy = f"To write elsewhere: medcoder map report {home} --out FOLDER"
        raise type(refusal)(refusal.what, where=refusal.where, values=refusal.values, remedy=remedy)
    event = _newest_event(project)  # before: what is decided while they are written is not in them
    path = _write_table(project, table, folder, progress)
    meta = project.meta
    write_report(project, folder, meta.get("timing"))
    if own:
        project.put(written=_present(meta, event) | {"sha256": file_fingerprint(path)})
    return path


def is_old(project: Project) -> bool:
    """Whether something was decided, mapped or recalibrated since the results were written."""
    meta = project.meta
    return _state(meta.get("written") or {}) != _state(_present(meta, _newest_event(project)))


def results_path(folder: Path, format: str) -> Path:
    """The file of the results of an input in this format."""
    if format not in stored.INPUTS:  # it becomes part of a path
        raise unknown("format of an input", format, stored.INPUTS)
    return folder / f"{_NAME}.{'parquet' if format == 'frame' else format}"


def _present(meta: Mapping[str, Any], event: int) -> dict[str, Any]:
    """What results depend on, as it is now."""
    recalibrations = meta.get("recalibrations") or []
    made = {"recalibrated": recalibrations[-1]["when"]} if recalibrations else {}
    return {"run": meta.get("run"), "event": event} | made


def _state(written: Mapping[str, Any]) -> list[Any]:
    return [written.get(name) for name in ("run", "event", "recalibrated")]


def _newest_event(project: Project) -> int:
    with guarded(project.path):
        return decisions.newest_event(project.base)


def _input_of(project: Project) -> Table:
    """The input, with the types of its cells where the results from before still have them."""
    path = results_path(project.path.parent, str(project.meta["format"]))
    known = (project.meta.get("written") or {}).get("sha256")
    if project.meta["format"] in _TYPED and path.is_file():
        # Not if somebody has changed the file: rows may stand in another order.
        with contextlib.suppress(InputError):
            if file_fingerprint(path) == known:
                return TypedProjectTable(project, open_table(path))
    return ProjectTable(project)


def _columns(project: Project) -> tuple[Column, ...]:
    return result_columns(int(project.meta["top"]))


def _names(table: Table, added: Sequence[Column]) -> tuple[str, ...]:
    """The header of the results."""
    return (*table.header, *unique_names((column.name for column in added), table.header))


def _stream(project: Project, added: Sequence[Column]) -> Iterator[tuple[tuple[str, ...], Cells]]:
    """Fields of every row and the cells that are added to them."""
    known: Recent[int, Cells] = Recent()
    with project.snapshot() as base:
        rows = base.execute("SELECT term, fields FROM rows ORDER BY number")
        for batch in grouped(rows, _BATCH, lambda row: len(row[1])):
            new = sorted({term for term, _ in batch} - known.keys())
            fresh = dict(_cells_of_terms(base, new, added))
            for term, fields in batch:
                cells = fresh.get(term) or known.recall(term)
                if cells is None:
                    raise stored.Strange("term", term, None)
                yield stored.fields(fields, term), cells
            for term, cells in fresh.items():
                known.keep(term, cells)


def _cells_of_terms(
    base: sqlite3.Connection, terms: Sequence[int], added: Sequence[Column]
) -> Iterator[tuple[int, Cells]]:
    for start in range(0, len(terms), queries.VARIABLES):
        batch = terms[start : start + queries.VARIABLES]
        where = f"WHERE t.id IN ({','.join('?' * len(batch))})"
        firsts = dict(base.execute(f"SELECT t.first, t.id FROM terms t {where}", batch))
        for mapping in queries.mappings(base, terms=True, where=where, values=batch):
            yield firsts[mapping.row.number], values(mapping, added)


def _write_table(
    project: Project, table: Table, folder: Path, progress: Progress | None = None
) -> Path:
    """Write the results in the format of the input; the columns of the input stay as they are."""
    path = results_path(folder, table.format)
    added, total = _columns(project), len(project)
    with replacing(path) as partial:
        write_rows = {".parquet": _write_parquet, ".xlsx": _write_xlsx}.get(
            path.suffix, _write_text
        )
        for done in write_rows(project, table, added, partial):
            if progress is not None:
                progress("writing", done, total)
    return path


def _write_text(project: Project, table: Any, added: Sequence[Column], path: Path) -> Iterator[int]:
    encoding = "utf-8-sig" if table.marked else "utf-8"
    with path.open("w", encoding=encoding, newline="") as out:
        writer = TextWriter(out, delimiter=table.delimiter)
        cut = table.delimiter
        writer.row([safe(name, cut) for name in _names(table, added)])
        rows, done = _stream(project, added), 0
        for batch in grouped(rows, _BATCH, lambda row: sum(map(len, row[0]))):
            writer.rows(
                [safe(field, cut) for field in fields] + [_text(cell, cut) for cell in cells]
                for fields, cells in batch
            )
            done += len(batch)
            yield done


def _write_xlsx(project: Project, table: Any, added: Sequence[Column], path: Path) -> Iterator[int]:
    from medcoder.tables.xlsx import SheetWriter

    header = _names(table, added)
    width = len(table.header)
    originals = table.cells()
    next(originals)
    done = 0
    with contextlib.closing(
        SheetWriter(header, title=_NAME, guard=safe, instead="\ufffd")
    ) as writer:
        for (fields, cells), original in zip(_stream(project, added), originals, strict=True):
            kept = [*original[:width], *[None] * (width - len(original))]
            if len(original) > width and any(cell is not None for cell in original[width:]):
                kept = list(fields)  # a broken row: its last field took what was too much
            writer.row((*kept, *cells))
            done += 1
            if done % _BATCH == 0:
                yield done
        writer.save(path)
    yield done


def _write_parquet(
    project: Project, table: Any, added: Sequence[Column], path: Path
) -> Iterator[int]:
    from medcoder.tables.parquet import open_writer

    schema, done = _schema(table, added), 0
    with open_writer(path, schema) as writer:
        for batch in _batches(project, table, added, schema):
            writer.write_batch(batch)
            done += batch.num_rows
            yield done


def _batches(
    project: Project, table: Any, added: Sequence[Column], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The columns of the input with their types, and those that are added."""
    rows, width = _stream(project, added), len(table.header)
    for batch in table.batches():
        cells = [cells for _, cells in islice(rows, batch.num_rows)]
        new = [
            pa.array([row[position] for row in cells], schema.field(width + position).type)
            for position in range(len(added))
        ]
        yield pa.RecordBatch.from_arrays([*batch.columns, *new], schema=schema)


def _schema(table: Any, added: Sequence[Column]) -> pa.Schema:
    schema = table.schema
    for name, column in zip(_names(table, added)[len(table.header) :], added, strict=True):
        schema = schema.append(pa.field(name, pa.float64() if column.numeric else pa.string()))
    return schema.remove_metadata()


def _text(cell: Value, delimiter: str) -> str:
    return safe(cell, delimiter) if isinstance(cell, str) else "" if cell is None else f"{cell:g}"
