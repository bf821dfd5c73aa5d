"""Tables: send one, have it mapped, watch how far it is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, UploadFile

from medcoder.serve.jobs import Job
from medcoder.serve.refusals import Refused
from medcoder.serve.routes.common import failures
from medcoder.serve.shapes.jobs import JobOf, Jobs, MapTable, UploadOf
from medcoder.serve.state import serving
from medcoder.serve.uploads import preview

router = APIRouter(prefix="/v1", tags=["map"])
JobId = Annotated[str, Path(max_length=100)]


@router.post("/uploads", response_model=UploadOf, status_code=201, responses=failures(415, 507))
def upload(
    request: Request,
    file: UploadFile,
    encoding: Annotated[
        str | None, Query(max_length=20, description="Of a text file, as in cp1252.")
    ] = None,
) -> Any:
    """Send a table (CSV, TSV, XLSX, Parquet); gives its columns and first rows."""
    kept, table = serving(request).uploads.add(file.file, file.filename or "", encoding)
    with kept.used():
        return {
            "upload": kept.id,
            "name": kept.name,
            "format": table.format,
            "columns": list(table.header),
            "preview": preview(table),
            "rows": table.size() or None,
        }


@router.post("/map", response_model=JobOf, status_code=202, responses=failures(404, 429))
def map_table(asked: MapTable, request: Request) -> Any:
    """Map a column of an uploaded table; a job that makes a project."""
    state = serving(request)
    kept = state.uploads.get(asked.upload)
    with kept.used():
        header = kept.table().header
    options = asked.model_dump(exclude={"upload", "name"})
    for field in ("column", "code", "count", "language"):
        wanted = options[field]
        if (wanted or field == "column") and header.count(wanted) != 1:
            raise Refused(422, "no_column", f"{field}: the table has no such column, or several")
    if any(header.count(column) != 1 for column in asked.context):
        raise Refused(422, "no_column", "context: the table has no such column, or several")
    normalizer = state.normalizer  # which names are unknown is said at once
    if asked.vocabularies:
        state.engine.call(
            lambda: normalizer.normalize_many([], vocabularies=asked.vocabularies)
        )  # fmt: skip
    with kept.used():
        return shown(state.jobs.start(kept, asked.name.strip(), options))


@router.get("/jobs", response_model=Jobs, responses=failures())
def jobs(request: Request) -> Any:
    """All jobs, oldest first."""
    return {"jobs": [shown(job) for job in serving(request).jobs.all()]}


@router.get("/jobs/{id}", response_model=JobOf, responses=failures(404))
def job(request: Request, id: JobId) -> Any:
    """How far a job is."""
    return shown(serving(request).jobs.get(id))


@router.delete("/jobs/{id}", response_model=JobOf, responses=failures(404))
def cancel(request: Request, id: JobId) -> Any:
    """Cancel a job; what it mapped is deleted. One that is done stays as it is."""
    return shown(serving(request).jobs.cancel(id))


def shown(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "what": job.what,
        "done": job.done,
        "total": job.total,
        "created": job.created,
        "error": job.error,
        "project": job.id if job.state == "done" else None,
    }
