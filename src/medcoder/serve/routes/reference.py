"""The description of the interface as a page, with nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse

from medcoder.serve.examples import TABLE, example
from medcoder.serve.state import serving

router = APIRouter(include_in_schema=False)
_STYLE = Path(__file__).parent.parent / "reference" / "style.css"


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
        f"<tr><td><code>{escape(one['name'])}</code><td>{escape(_kind(one['schema']))}"
        f"<td>{escape(one.get('description', ''))}"
        for one in operation.get("parameters", ())
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
