"""Projects as files, in every format of `medcoder map export`."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, UploadFile
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

from medcoder.errors import InputError, UsageError
from medcoder.mapping.exports import ENDINGS, EXPORTS, export
from medcoder.serve.refusals import Refused, of_input, plain
from medcoder.serve.routes.common import ProjectId, failures
from medcoder.serve.shapes.review import ConceptTable, Formats
from medcoder.serve.state import serving
from medcoder.serve.uploads import shown

router = APIRouter(prefix="/v1", tags=["export"])
NOTES = "X-Medcoder-Notes"
_LONGEST = 4000  # characters of a header
_BYTES = "application/octet-stream"
_FILE = f"The file; {NOTES} lists what it does not hold, as JSON with percent signs encoded."


class _Once(FileResponse):
    """A file that is sent whole, whatever part of it is asked for, and then deleted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = [one for one in scope["headers"] if one[0] not in (b"range", b"if-range")]
        try:
            await super().__call__({**scope, "headers": wanted}, receive, send)
        finally:
            Path(self.path).unlink(missing_ok=True)


@router.get("/exports", response_model=Formats, responses=failures())
def formats(request: Request) -> Any:
    """Formats that projects are written in."""
    return {"formats": [{"format": name, "ending": ENDINGS[name]} for name in sorted(EXPORTS)]}


@router.post(
    "/concept-tables", response_model=ConceptTable, status_code=201, responses=failures(415, 507)
)
def concept_table(request: Request, file: UploadFile) -> Any:
    """Send a CONCEPT.csv of OMOP, or a CONCEPT.csv.gz, for exports that need its concept ids."""
    return {"concepts": serving(request).concepts.add(file.file, file.filename or "")}


@router.get(
    "/projects/{project}/exports/{format}",
    response_class=FileResponse,
    responses=failures(404, 409) | {200: {"description": _FILE, "content": {_BYTES: {}}}},
)
def download(
    request: Request,
    project: ProjectId,
    format: str,
    concepts: Annotated[
        str | None,
        Query(max_length=100, description="omop, usagi: id that `POST /v1/concept-tables` gave."),
    ] = None,
    missing_ok: Annotated[
        bool, Query(description="omop, usagi: concepts without an id become 0.")
    ] = False,
    source_vocabulary: Annotated[str | None, Query(max_length=100)] = None,
    url: Annotated[str | None, Query(max_length=500)] = None,
) -> FileResponse:
    """Write a project in a format of others."""
    state = serving(request)
    if format not in EXPORTS:
        raise Refused(404, "no_format", "there is no such format. See /v1/exports")
    table = state.concepts.get(concepts) if concepts else None
    options = {
        "concepts": table,
        "missing_ok": missing_ok or None,
        "source_vocabulary": source_vocabulary,
        "url": url,
    }
    file = state.exports / uuid.uuid4().hex
    with state.open(project) as opened:
        if not opened.meta:
            raise Refused(409, "not_begun", "its table is not read yet. Try again in a moment")
        try:
            notes = export(opened, format, file, **options)
        except InputError as error:
            if concepts:
                state.concepts.get(concepts)  # it may be forgotten by now, which is the reason
            named = InputError(_named(error.what, table), row=error.row)
            raise Refused(422, "not_exported", of_input(named)) from error
        except UsageError as error:
            said = plain(str(error)).replace("(--concepts)", "(POST /v1/concept-tables)")
            raise Refused(422, "not_exported", said) from error
    header = _written([_named(note, table) for note in notes])
    if len(header) > _LONGEST:
        header = _written([f"{len(notes)} notes: see `medcoder map export`"])
    name = Path(shown(state.name_of(project))).stem
    return _Once(
        file, media_type=_BYTES, filename=f"{name}{ENDINGS[format]}",
        headers={NOTES: header, "Accept-Ranges": "none"},
    )  # fmt: skip


def _named(text: str, table: Path | None) -> str:
    """What is said of a file of ours, without where it lies."""
    return text.replace(str(table), "the CONCEPT table") if table is not None else text


def _written(notes: list[str]) -> str:
    """JSON in ASCII that survives being taken for percent-encoded, as readers of headers do."""
    return json.dumps(notes).replace("%", "%25")
