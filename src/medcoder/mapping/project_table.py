"""The input as a project has kept it: for results when the file itself is not at hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from medcoder.mapping.store import Project
from medcoder.tables import Row

_BATCH = 8192  # rows at a time


class Kept:
    """Rows of a project, in the format of the input; all values are strings."""

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

    def rows(self, skip: int = 0) -> Iterator[Row]:
        with self._project.snapshot() as base:
            query = "SELECT fields FROM rows WHERE number > ? ORDER BY number"
            for (fields,) in base.execute(query, [skip]):
                yield Row(tuple(json.loads(fields)))

    def cells(self) -> Iterator[tuple[str | None, ...]]:
        """The header and the rows, for a workbook."""
        yield self.header
        for row in self.rows():
            yield tuple(field or None for field in row.fields)

    def batches(self) -> Iterator[pa.RecordBatch]:
        some: list[tuple[str, ...]] = []
        for row in self.rows():
            some.append(row.fields)
            if len(some) == _BATCH:
                yield self._batch(some)
                some = []
        if some:
            yield self._batch(some)

    def _batch(self, rows: list[tuple[str, ...]]) -> pa.RecordBatch:
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class Earlier(Kept):
    """Rows of a project with the types of a table of results: its first columns are the input."""

    def __init__(self, table: Any, project: Project) -> None:
        super().__init__(project)
        self._table, width = table, len(self.header)
        if hasattr(table, "schema"):
            self.schema = pa.schema([table.schema.field(place) for place in range(width)])

    def cells(self) -> Iterator[tuple[Any, ...]]:
        for cells in self._table.cells():
            yield cells[: len(self.header)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._table.batches():
            columns = batch.columns[: len(self.header)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
