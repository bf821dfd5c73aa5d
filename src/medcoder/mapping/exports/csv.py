"""Plain CSV: every row of the input with its mapping, candidates, status and decision."""

from __future__ import annotations

import csv
from pathlib import Path

from medcoder.files import replacing
from medcoder.mapping.exports.columns import columns_of, values_of
from medcoder.mapping.exports.common import HISTORY, Cells, rows
from medcoder.mapping.store import Project
from medcoder.progress import Progress


def export(project: Project, path: Path, *, progress: Progress | None = None) -> list[str]:
    """Write UTF-8, quoted as RFC 4180 has it, a row for each row of the input."""
    columns, cell = columns_of(project), Cells()
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(map(cell, (*columns.given, *columns.ours)))
        for mapping in rows(project, progress):
            table.writerow(
                cell(value) if isinstance(value, str) else "" if value is None else f"{value:g}"
                for value in values_of(mapping, columns)
            )
    return [HISTORY, "scores and matched terms of candidates are not in the file", *cell.notes()]
