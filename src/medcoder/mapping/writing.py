"""Results and report of a project, beside it; what people decide later makes them old."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping as Dict
from pathlib import Path

from medcoder.errors import InputError
from medcoder.mapping import deciding, results
from medcoder.mapping.project_table import Earlier, Kept
from medcoder.mapping.report import write_report
from medcoder.mapping.schema import guarded
from medcoder.mapping.store import Project
from medcoder.progress import Progress
from medcoder.tables import Table, file_fingerprint, open_table

_TYPED = ("frame", "parquet", "xlsx")  # formats with more than text in their cells


def write_results(project: Project, *, progress: Progress | None = None) -> Path:
    """Write the table of results and the report again, with what was decided since.

    Needs neither the input nor the index. Gives the path of the table.
    """
    return write(project, _input_of(project), progress=progress)


def write(
    project: Project,
    table: Table,
    *,
    timing: Dict[str, float] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write results and report.

    timing: seconds, rows and strings of the run that has just ended; one that found nothing left
        to do is not told of
    """
    if timing and (timing["rows"] or timing["strings"]):
        project.put(timing=dict(timing))
    event = _newest(project)  # before: what is decided while they are written is not in them
    file = results.write(project, table, project.path.parent, progress)
    meta = project.meta
    write_report(project, project.path.parent, meta.get("timing"))
    project.put(written={"run": meta["run"], "event": event, "sha256": file_fingerprint(file)})
    return file


def is_old(project: Project) -> bool:
    """Whether something was decided or mapped since the results were written."""
    meta = project.meta
    written = meta.get("written") or {}
    return (written.get("run"), written.get("event")) != (meta.get("run"), _newest(project))


def _newest(project: Project) -> int:
    with guarded(project.path):
        return deciding.newest_event(project.base)


def _input_of(project: Project) -> Table:
    """The input, with the types of its cells where the results from before still have them."""
    file = results.place(project.path.parent, str(project.meta["format"]))
    known = (project.meta.get("written") or {}).get("sha256")
    if project.meta["format"] in _TYPED and file.is_file():
        # Not if somebody has changed the file: rows may stand in another order.
        with contextlib.suppress(InputError):
            if file_fingerprint(file) == known:
                return Earlier(open_table(file), project)
    return Kept(project)
