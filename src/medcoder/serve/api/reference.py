"""The description of the interface as a page, with nothing from elsewhere.

Each operation has an example that works as it stands, with what this service holds. Where a token
is asked for, the ids of projects, jobs and uploads are made up.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse

from medcoder.serve.state import Serving, serving

router = APIRouter(include_in_schema=False)
_STYLE = Path(__file__).with_name("reference.css")
_NONE = "0" * 32  # the id of no upload and of no job
_QUERIES: dict[str, dict[str, str]] = {
    "/v1/search": {"q": "heart attack", "top": "5"},
    "/v1/concepts/{id}/neighbours": {"top": "10"},
    "/v1/projects/{project}/terms": {"status": "review", "sort": "doubt", "limit": "20"},
    "/v1/projects/{project}/changes": {"since": "0"},
}
TABLE = "id,text\n1,heart attack\n2,fiebre\n"  # that an upload may hold
_FILES = {"/v1/uploads": "ward.csv", "/v1/concept-tables": "CONCEPT.csv"}


@router.get("/docs", response_class=HTMLResponse)
def reference(request: Request) -> HTMLResponse:
    return HTMLResponse("\n".join(_page(request)))


@router.get("/docs/style.css")
async def style() -> FileResponse:
    return FileResponse(_STYLE, media_type="text/css")


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, route and description of each operation."""
    for route, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), route, operation


def _page(request: Request) -> Iterator[str]:
    described = request.app.openapi()
    state = serving(request)
    base = str(request.base_url).rstrip("/")
    yield "<!doctype html><html lang=en><meta charset=utf-8><title>medcoder: REST</title>"
    yield "<meta name=viewport content='width=device-width'>"
    yield "<link rel=stylesheet href=docs/style.css><h1>medcoder: REST</h1>"
    yield "<p>For programs, the same is in <a href=openapi.json>openapi.json</a>. "
    yield "For people, there is <a href='./'>a page</a>.</p>"
    yield f"<p>{escape(described['info']['description']).replace('`', '')}</p>"
    yield f"<p>The file of the upload below, ward.csv:</p><pre>{escape(TABLE)}</pre>"
    group = None
    for method, route, operation in operations(described):
        [named] = operation["tags"]
        if named != group:
            group = named
            yield f"<h2>{escape(named)}</h2>"
        yield f"<h3>{method} {escape(route)}</h3><p>{escape(operation['description'])}</p>"
        yield from _parameters(operation)
        shown = example(state, method, route).curl(base, token=state.settings.token is not None)
        yield f"<pre>{escape(shown)}</pre>"


def _parameters(operation: dict[str, Any]) -> Iterator[str]:
    rows = [
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(_kind(parameter['schema']))}"
        f"<td>{escape(parameter.get('description', ''))}"
        for parameter in operation.get("parameters", ())
    ]
    if rows:
        yield f"<table>{''.join(rows)}</table>"


def _kind(shape: dict[str, Any]) -> str:
    """What a parameter may be, in a few words."""
    options = [one for one in shape.get("anyOf", [shape]) if one.get("type") != "null"]
    first = options[0]
    words = ["one of " + ", ".join(first["enum"])] if "enum" in first else [first.get("type", "")]
    if "maximum" in first:
        words.append(f"at most {first['maximum']:,}")
    if "maxLength" in first:
        words.append(f"at most {first['maxLength']:,} characters")
    if "default" in shape and shape["default"] not in ("", [], None):
        words.append(f"{shape['default']} if not given")
    return ", ".join(words)


class Example(NamedTuple):
    """A request."""

    method: str
    path: str  # with its values and its query
    body: dict[str, Any] | None = None
    file: str = ""  # that is sent; ward.csv holds TABLE

    def curl(self, base: str, *, token: bool) -> str:
        """As a command."""
        words = ["curl"] + ([] if self.method == "GET" else ["-X", self.method])
        if token:
            words += ["-H", "Authorization: Bearer TOKEN"]
        if self.body is not None:
            said = json.dumps(self.body, ensure_ascii=False)
            words += ["-H", "Content-Type: application/json", "-d", said]
        if self.file:
            words += ["-F", f"file=@{self.file}"]
        return shlex.join([*words, base + self.path])


def example(state: Serving, method: str, route: str) -> Example:
    """The example of an operation."""
    values = _values(state)
    path = route
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if route.startswith("/v1/jobs/"):
        path = route.replace("{id}", values["job"])
    if route in _QUERIES:
        path += f"?{urlencode(_QUERIES[route])}"
    body = _bodies(values).get(route) if method == "POST" else None
    return Example(method, path, body, _FILES.get(route, ""))


def _values(state: Serving) -> dict[str, str]:
    projects, jobs, upload = list(state.projects()), state.jobs.all(), state.uploads.last()
    if state.settings.token is not None:  # the page that shows them asks for none
        projects, jobs, upload = [], [], None
    return {
        "id": _concept(state),
        "project": projects[0] if projects else "ward",
        "key": "1",
        "format": "sssom",
        "job": jobs[0].id if jobs else _NONE,
        "upload": upload or _NONE,
    }


def _concept(state: Serving) -> str:
    if not state.ready:
        return "HP:0001658"
    kg = state.normalizer.kg
    found = kg.find("heart attack")
    return found[0] if found else kg.terms.id(0)


def _bodies(values: dict[str, str]) -> dict[str, dict[str, Any]]:
    decision = {"concept": values["id"], "who": "ann", "note": "as on the chart"}
    return {
        "/v1/normalize": {"texts": ["heart attack", "fiebre"], "top": 3},
        "/v1/embed": {"texts": ["heart attack"]},
        "/v1/map": {"upload": values["upload"], "column": "text", "code": "id"},
        "/v1/projects/{project}/terms/{key}/decision": decision,
        "/v1/projects/{project}/terms/{key}/undo": {"who": "ann"},
        "/v1/projects/{project}/undo": {"who": "ann"},
        "/v1/projects/{project}/calibrate": {"who": "ann", "dry_run": True},
        "/v1/projects/{project}/calibrate/undo": {"dry_run": True},
        "/v1/projects/{project}/accept": {"who": "ann", "precision": 0.98, "only_count": True},
    }
