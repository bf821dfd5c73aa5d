"""Projects as files, in every format of `medcoder map export`."""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, UploadFile
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from medcoder.errors import InputError, UsageError
from medcoder.mapping.formats import (
    FORMATS,
    Option,
    all_options,
    export,
    format_names,
    options_of,
)
from medcoder.serve.api import ProjectId, failures
from medcoder.serve.error_replies import Refused, input_message
from medcoder.serve.state import serving
from medcoder.serve.uploads import safe_name

NOTES = "X-Medcoder-Notes"
_LONGEST = 4000  # characters of a header
_OPTION = 500  # characters of an option
_SENT = "Give the id that `POST /v1/concept-tables` gave."
_BYTES = "application/octet-stream"
_FILE = f"The file; {NOTES} lists what it does not hold, as JSON with percent signs encoded."


class ConceptTable(BaseModel):
    concepts: str


class OptionOf(BaseModel):
    """A parameter of the download of a format."""

    name: str
    type: Literal["bool", "int", "float", "str", "file"]
    help: str


class Format(BaseModel):
    format: str
    ending: str
    options: list[OptionOf]


class Formats(BaseModel):
    formats: list[Format]


class _Once(FileResponse):
    """A file that is sent whole, whatever part of it is asked for, and then deleted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = [one for one in scope["headers"] if one[0] not in (b"range", b"if-range")]
        try:
            await super().__call__({**scope, "headers": wanted}, receive, send)
        finally:
            Path(self.path).unlink(missing_ok=True)


def make_router() -> APIRouter:
    """The routes. The options of a download are those of the formats at this moment."""
    router = APIRouter(prefix="/v1", tags=["export"])
    router.get("/exports", response_model=Formats, responses=failures())(formats)
    router.post(
        "/concept-tables",
        response_model=ConceptTable,
        status_code=201,
        responses=failures(415, 507),
    )(concept_table)
    router.get(
        "/projects/{project}/exports/{format}",
        response_class=FileResponse,
        responses=failures(404, 409) | {200: {"description": _FILE, "content": {_BYTES: {}}}},
        name="download",
        description=inspect.getdoc(_download),
    )(_with_options(all_options()))
    return router


def formats(request: Request) -> Any:
    """Formats that projects are written in."""
    return {
        "formats": [
            {
                "format": name,
                "ending": FORMATS.load(name).ending,
                "options": [_described(option) for option in _options(name)],
            }
            for name in format_names()
        ]
    }


def _described(option: Option) -> dict[str, str]:
    kind = "file" if option.type is Path else option.type.__name__
    return {"name": option.name, "type": kind, "help": option.help}


def concept_table(request: Request, file: UploadFile) -> Any:
    """Send a CONCEPT.csv of OMOP, or a CONCEPT.csv.gz, for exports that need its concept ids."""
    return {"concepts": serving(request).concepts.add(file.file, file.filename or "")}


def _with_options(options: Sequence[Option]) -> Callable[..., FileResponse]:
    """The route of a download, with these options as parameters of its query."""

    def download(request: Request, project: str, format: str, **given: Any) -> FileResponse:
        return _download(request, project, format, given)

    fixed = [("request", Request), ("project", ProjectId), ("format", str)]
    parameters = [
        *(Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in fixed),
        *map(_parameter, options),
    ]
    download.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return download


def _parameter(option: Option) -> Parameter:
    """An option as a parameter of a query. A file is given by the id that sending it gave."""
    description = f"{', '.join(option.formats)}: {option.help}."
    kind: Any = option.type | None
    query = Query(description=description)
    if option.type is Path:
        kind = str | None
        query = Query(max_length=100, description=f"{description} {_SENT}")
    elif option.type is str:
        query = Query(max_length=_OPTION, description=description)
    elif option.type is bool:
        kind = bool
    return Parameter(
        option.name,
        Parameter.KEYWORD_ONLY,
        default=False if option.type is bool else None,
        annotation=Annotated[kind, query],
    )


def _download(request: Request, project: str, format: str, given: dict[str, Any]) -> FileResponse:
    """Write a project in a format of others."""
    state = serving(request)
    if format not in format_names():
        raise Refused(404, "no_format", "there is no such format. See /v1/exports")
    options = _checked(format, given)
    tables = {name: state.concepts.get(number) for name, number in _files(format, options).items()}
    file = state.exports / uuid.uuid4().hex
    with state.open(project) as opened:
        if not opened.meta:
            raise Refused(409, "not_begun", "its table is not read yet. Try again in a moment")
        try:
            notes = export(opened, format, file, **options | tables)
        except InputError as error:
            for number in _files(format, options).values():
                state.concepts.get(number)  # it may be forgotten by now, which is the reason
            raise Refused(422, "not_exported", input_message(error)) from error
        except UsageError as error:
            unsent = any(option.type is Path for option in _options(format)) and not tables
            remedy = ". Send a CONCEPT.csv with POST /v1/concept-tables" if unsent else ""
            raise Refused(422, "not_exported", error.what + remedy) from error
    header = _written([_named(note, tables.values()) for note in notes])
    if len(header) > _LONGEST:
        header = _written([f"{len(notes)} notes: see `medcoder map export`"])
    name = Path(safe_name(state.name_of(project))).stem
    return _Once(
        file, media_type=_BYTES, filename=f"{name}{FORMATS.load(format).ending}",
        headers={NOTES: header, "Accept-Ranges": "none"},
    )  # fmt: skip


def _options(format: str) -> list[Option]:
    return options_of(FORMATS.load(format).export)


def _checked(format: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, if the format has them."""
    options = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    names = [option.name for option in _options(format)]
    if not set(options) <= set(names):
        known = ", ".join(names) or "none"
        raise Refused(422, "not_exported", f"the format has no such option. It has: {known}")
    return options


def _files(format: str, options: dict[str, Any]) -> dict[str, str]:
    """The ids of the files among the options."""
    files = {option.name for option in _options(format) if option.type is Path}
    return {name: value for name, value in options.items() if name in files}


def _named(text: str, tables: Iterable[Path]) -> str:
    """What is said of a file of ours, without where it lies."""
    for table in tables:
        text = text.replace(str(table), "the CONCEPT table")
    return text


def _written(notes: list[str]) -> str:
    """JSON in ASCII that survives being taken for percent-encoded, as readers of headers do."""
    return json.dumps(notes).replace("%", "%25")
