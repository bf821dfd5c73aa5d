"""Layers around every request: who may ask, how much may be sent, what is counted and logged."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medcoder.serve.error_replies import Refused, failure_place
from medcoder.serve.metrics import Metrics
from medcoder.serve.settings import LOOPBACK, Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
GUARDED = ("/v1/", "/metrics")  # where the token is asked for: the page itself holds no data
_UPLOADS, _CONCEPTS = "/v1/uploads", "/v1/concept-tables"
_ROOM = 1 << 16  # bytes of a form around its file
LOGGER = logging.getLogger("medcoder.serve")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OTHER = "other"  # addresses that lead nowhere: anything may stand in them


class RequestLog:
    """The outermost layer: counts, times and logs every request by its route.

    No failure gets out as it is.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, start = 0, time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Refused as refused:
            if not status:
                await refused.reply()(scope, receive, with_headers(scope, watched))
        except Exception as error:
            LOGGER.error("%s", failure_place(error))
            if not status:
                failed = Refused(500, "internal", "something went wrong: the log says where")
                await failed.reply()(scope, receive, with_headers(scope, watched))
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", _OTHER) or _OTHER
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._metrics.count_request(method, route, status, seconds)
            LOGGER.info("%s %s %d %.1f ms", method, route, status, 1000 * seconds)


class Guard:
    """Asks for a token, a host name and an origin; refuses what is too large; adds headers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._digest = None if settings.token is None else _digest(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        send = with_headers(scope, send)
        limit = self._limit(scope["path"])
        refused = self._refused(headers, _is_guarded(scope))
        if refused is None and _length(headers) > limit.bytes:
            refused = limit.refused()
        if refused is not None:
            await refused.reply()(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _limit(self, path: str) -> _Limit:
        files = {_UPLOADS: self._settings.upload, _CONCEPTS: self._settings.concepts}
        if (most := files.get(path)) is not None:
            return _Limit(most + _ROOM, most)
        return _Limit(self._settings.body, self._settings.body)

    def _refused(self, headers: Headers, guarded: bool) -> Refused | None:
        host = headers.get("host", "")
        # A page of elsewhere may lead its own name to this machine: without a token, only the
        # names of this machine count.
        if self._digest is None and _host_name(host) not in LOOPBACK:
            return Refused(421, "host", "this service answers to the names of its machine only")
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            return Refused(403, "origin", "pages of other sites may not use this service")
        if self._digest is not None and guarded:
            return self._token(headers.get("authorization", ""))
        return None

    def _token(self, given: str) -> Refused | None:
        kind, _, token = given.partition(" ")
        assert self._digest is not None
        # Digests have one length, whatever was sent: the time tells nothing.
        same = hmac.compare_digest(_digest(token.strip()), self._digest)
        if same and kind.lower() == "bearer":
            return None
        return Refused(
            401, "token", "send the token of this service: Authorization: Bearer TOKEN",
            headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip


def with_headers(scope: Scope, send: Send) -> Send:
    """Sends replies with the headers that every one has."""
    caching = "no-store" if _is_guarded(scope) else "no-cache"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                added.setdefault(name, value)
            added.setdefault("Cache-Control", caching)
        await send(message)

    return send_with_headers


class _Limit(NamedTuple):
    """Of the body of a request."""

    bytes: int  # that are read
    told: int  # what a reply says: of a form, what its file may have

    def refused(self) -> Refused:
        message = f"the request is larger than {self.told:,} bytes"
        return Refused(413, "too_large", message, limit=self.told)


def _length(headers: Headers) -> int:
    said = headers.get("content-length", "0")
    return int(said) if said.isdigit() else 0


def _counted(receive: Receive, limit: _Limit) -> Receive:
    """Bodies that do not say how long they are, are counted as they come."""
    read = 0

    async def counted() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit.bytes:
            raise limit.refused()
        return message

    return counted


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _is_guarded(scope: Scope) -> bool:
    return bool(scope["path"].startswith(GUARDED))


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "") if host.count("@") == 0 else ""
    except ValueError:
        return ""
