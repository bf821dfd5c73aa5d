"""Tables: send one, have it mapped, watch how far it is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, UploadFile
from pydantic import BaseModel, Field, FiniteFloat

from medcoder.mapping.project.records import Role
from medcoder.serve.api import NAMES, STRICT, TOP, Name, Names, Targets, Text, failures
from medcoder.serve.error_replies import Refused
from medcoder.serve.jobs import Job, JobState
from medcoder.serve.state import serving
from medcoder.serve.uploads import preview

router = APIRouter(prefix="/v1", tags=["map"])
JobId = Annotated[str, Path(max_length=100)]


class MapTable(BaseModel):
    """A table to map: an upload and its columns."""

    model_config = STRICT

    upload: Annotated[Name, Field(description="Id that `POST /v1/uploads` gave.")]
    column: Annotated[Text, Field(description="Column of the strings to map.")]
    code: Annotated[Text, Field(description="Column of the local codes.")] = ""
    count: Annotated[Text, Field(description="Column that says how often a row occurs.")] = ""
    language: Annotated[Text, Field(description="Column of the language of the string.")] = ""
    context: Annotated[dict[Text, Role], Field(max_length=NAMES)] = {}
    top: Annotated[int, Field(ge=1, le=TOP)] = 5
    precision: Annotated[
        FiniteFloat, Field(ge=0.5, lt=1, description="To expect of automatic mappings.")
    ] = 0.98
    vocabularies: Names = []
    targets: Annotated[Targets, Field(description="Which concepts may be answered with.")] = "any"
    split: Annotated[bool, Field(description="Answer several things in a cell one by one.")] = True
    keep_bad_rows: bool = False
    name: Annotated[Text, Field(description="What the project is to be called.")] = ""


class UploadOf(BaseModel):
    upload: str
    name: str
    format: str
    columns: list[str]
    preview: list[list[str]]
    rows: int | None


class JobOf(BaseModel):
    id: str
    name: str
    state: JobState
    what: str
    done: int
    total: int
    created: str
    error: str | None
    project: str | None


class Jobs(BaseModel):
    jobs: list[JobOf]


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


@router.post("/map", response_model=JobOf, status_code=202, responses=failures(404))
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
    state.check_targets(asked.targets)
    if asked.vocabularies:
        state.engine.call(lambda: normalizer.normalize_many([], vocabularies=asked.vocabularies))
    with kept.used():
        return _described(state.jobs.start(kept, asked.name.strip(), options))


@router.get("/jobs", response_model=Jobs, responses=failures())
def jobs(request: Request) -> Any:
    """All jobs, oldest first."""
    return {"jobs": [_described(job) for job in serving(request).jobs.all()]}


@router.get("/jobs/{id}", response_model=JobOf, responses=failures(404))
def job(request: Request, id: JobId) -> Any:
    """How far a job is."""
    return _described(serving(request).jobs.get(id))


@router.delete("/jobs/{id}", response_model=JobOf, responses=failures(404))
def cancel(request: Request, id: JobId) -> Any:
    """Cancel a job; what it mapped is deleted. One that is done stays as it is."""
    return _described(serving(request).jobs.cancel(id))


def _described(job: Job) -> dict[str, Any]:
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
