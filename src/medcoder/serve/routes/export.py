"""Projects as files, in every format of `medcoder map export`."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from medcoder.errors import InputError, UsageError
from medcoder.mapping.exports import ENDINGS, EXPORTS, export
from medcoder.serve.refusals import Refused, of_input, plain
from medcoder.serve.routes.common import ProjectId, failures
from medcoder.serve.shapes import Formats
from medcoder.serve.state import serving
from medcoder.serve.uploads import shown

router = APIRouter(prefix="/v1", tags=["export"])
NOTES = "X-Medcoder-Notes"
_LONGEST = 4000  # characters of a header
_BYTES = "application/octet-stream"
_FILE = f"The file; {NOTES} lists what it does not hold, as JSON with percent signs encoded."


@router.get("/exports", response_model=Formats, responses=failures())
def formats(request: Request) -> Any:
    """Formats that projects are written in."""
    return {"formats": [{"format": name, "ending": ENDINGS[name]} for name in sorted(EXPORTS)]}


@router.get(
    "/projects/{project}/exports/{format}",
    response_class=FileResponse,
    responses=failures(404) | {200: {"description": _FILE, "content": {_BYTES: {}}}},
)
def download(
    request: Request,
    project: ProjectId,
    format: str,
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
    options = {
        "missing_ok": missing_ok or None, "source_vocabulary": source_vocabulary, "url": url,
    }  # fmt: skip
    file = state.exports / uuid.uuid4().hex
    with state.open(project) as opened:
        try:
            notes = export(opened, format, file, **options)
        except InputError as error:
            raise Refused(422, "not_exported", of_input(error)) from error
        except UsageError as error:
            raise Refused(422, "not_exported", plain(str(error))) from error
    said = _written(notes)
    if len(said) > _LONGEST:
        said = _written([f"{len(notes)} notes: see `medcoder map export`"])
    name = Path(shown(state.name_of(project))).stem
    return FileResponse(
        file, media_type=_BYTES, filename=f"{name}{ENDINGS[format]}",
        headers={NOTES: said}, background=BackgroundTask(Path.unlink, file, missing_ok=True),
    )  # fmt: skip


def _written(notes: list[str]) -> str:
    """JSON in ASCII that survives being taken for percent-encoded, as readers of headers do."""
    return json.dumps(notes).replace("%", "%25")
