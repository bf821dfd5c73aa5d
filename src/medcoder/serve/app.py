"""The application: routes, errors, layers around them, and the page."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from medcoder import __version__
from medcoder.errors import MedcoderError
from medcoder.files import no_room as is_full
from medcoder.normalize import Normalizer
from medcoder.serve.api import (
    calibrate,
    concepts,
    exports,
    health,
    lookup,
    map_jobs,
    reference,
    review,
)
from medcoder.serve.error_replies import (
    Refused,
    failure_place,
    library_reply,
    no_room,
    validation_reply,
)
from medcoder.serve.middleware import Guard, RequestLog
from medcoder.serve.settings import Settings
from medcoder.serve.state import Serving

PAGE = Path(__file__).parent / "web"
LOGGER = logging.getLogger("medcoder.serve")
_API = ("/v1", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json")
_MESSAGES = {
    400: "the body of the request cannot be read",
    404: "there is nothing at this address",
    405: "this address does not take that method",
}
_ABOUT = (
    "Strings to medical concepts, and tables to reviewed mappings. Every error is "
    '`{"error": {"code", "message", "limit"}}`; what was sent is never repeated in one.'
)


class _Page(Mount):
    """The files of the page; addresses of the interface are not among them."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(tuple(f"{a}/" for a in _API)):
            return Match.NONE, {}
        return super().matches(scope)


def build(
    normalizer: Normalizer | Callable[[], Normalizer],
    folder: Path,
    projects: dict[str, Path],
    settings: Settings | None,
) -> FastAPI:
    settings = settings or Settings()
    state = Serving(normalizer, folder, projects, settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(asyncio.to_thread(state.load))
        loading.add_done_callback(_tell_failed)
        yield
        with contextlib.suppress(Exception):
            await loading
        await state.close()

    app = FastAPI(
        title="medcoder", version=__version__, description=_ABOUT, lifespan=lifespan,
        docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.serving = state
    app.include_router(lookup.router)
    app.include_router(concepts.router)
    app.include_router(map_jobs.router)
    app.include_router(review.router)
    app.include_router(calibrate.router)
    app.include_router(exports.make_router())  # with the formats that there are now
    app.include_router(health.router)
    app.include_router(reference.router)
    _add_errors(app)
    app.router.routes.append(_Page("/", StaticFiles(directory=PAGE, html=True), name="page"))
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(RequestLog, metrics=state.metrics)
    return app


def _add_errors(app: FastAPI) -> None:
    known: list[frozenset[str]] = []

    async def refused(request: Request, error: Any) -> JSONResponse:
        assert isinstance(error, Refused)
        return error.reply()

    async def of_ours(request: Request, error: Any) -> JSONResponse:
        return library_reply(error).reply()

    async def of_http(request: Request, error: Any) -> JSONResponse:
        if is_full(error.__cause__):  # for a body while it comes
            return no_room().reply()
        message = _MESSAGES.get(error.status_code, "the request cannot be answered")
        headers = dict(error.headers or {})
        return Refused(error.status_code, "http", message, headers=headers).reply()

    async def of_system(request: Request, error: Any) -> JSONResponse:
        if is_full(error):
            return no_room().reply()
        raise error

    async def invalid(request: Request, error: Any) -> JSONResponse:
        if not known:
            known.append(_names(app.openapi()))
        return validation_reply(error.errors(), known[0]).reply()

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(MedcoderError, of_ours)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(OSError, of_system)
    app.add_exception_handler(RequestValidationError, invalid)


def _names(described: dict[str, Any]) -> frozenset[str]:
    """Names of fields and parameters."""
    names = {"body", "query", "path"}
    for shape in described["components"]["schemas"].values():
        names |= set(shape.get("properties", ()))
    for methods in described["paths"].values():
        for operation in methods.values():
            names |= {parameter["name"] for parameter in operation.get("parameters", ())}
    return frozenset(names)


def _tell_failed(loading: asyncio.Task[None]) -> None:
    if not loading.cancelled() and (error := loading.exception()) is not None:
        LOGGER.error("the index cannot be loaded: %s", failure_place(error))
