"""Layers around every request: who may ask, how much may be sent, what is counted and logged."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medcoder.serve.error_replies import Refused, busy, failure_place, too_many
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
_ALWAYS = ("/healthz", "/readyz", "/metrics")  # are answered however much there is to do
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
        except asyncio.CancelledError:  # by the server alone, at the end of the grace period
            if not status:
                stopping = busy("stopping", "the service goes down")
                await stopping.reply()(scope, receive, with_headers(scope, watched))
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
    """Asks for a token, a host name and an origin; refuses what is too much; adds headers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._digest = None if settings.token is None else _digest(settings.token)
        self._work = _Work(settings.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        send = with_headers(scope, send)
        limit = self._limit(scope["path"])
        refused = self._refused(headers, _is_guarded(scope))
        if refused is None:
            refused = self._too_long(scope) or limit.passed(_length(headers))
        if refused is not None:
            await refused.reply()(scope, receive, send)
            return
        work = _Work(None) if scope["path"] in _ALWAYS else self._work
        request = _Request(receive, send, limit, self._settings, work)
        try:
            if not _has_body(headers):
                request.begin()
            await self._app(scope, request.receive, request.send)
        finally:
            request.end()

    def _too_long(self, scope: Scope) -> Refused | None:
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > self._settings.url:
            return long_address(self._settings)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > self._settings.head:
            return long_head(self._settings)
        return None

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

    def passed(self, size: int) -> Refused | None:
        if size <= self.bytes:
            return None
        message = f"the request is larger than {self.told:,} bytes"
        return Refused(413, "too_large", message, limit=self.told)


class _Work:
    """How many requests are at work; None: as many as there are."""

    def __init__(self, limit: int | None) -> None:
        self._limit, self._count = limit, 0

    def begin(self) -> None:
        if self._limit is not None and self._count >= self._limit:
            raise too_many("too_many_requests", "too many requests are at work", limit=self._limit)
        self._count += 1

    def end(self) -> None:
        self._count -= 1


class _Request:
    """A request while it is read and answered.

    At work is what has come whole and has no reply yet: callers that are slow to send or to read
    take no place from others.
    """

    def __init__(
        self, receive: Receive, send: Send, limit: _Limit, settings: Settings, work: _Work
    ) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._settings, self._work = settings, work
        self._start, self._read = time.monotonic(), 0
        self._whole = self._working = False

    def begin(self) -> None:
        self._whole = True
        self._work.begin()
        self._working = True

    def end(self) -> None:
        if self._working:
            self._work.end()
        self._working = False

    async def receive(self) -> Message:
        """A part of the body, if it comes in time and is not too much."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._left()):
                message = await self._receive()
        except TimeoutError as error:
            raise self._late() from error
        # Bodies that do not say how long they are, are counted as they come.
        self._read += len(message.get("body", b""))
        if (refused := self._limit.passed(self._read)) is not None:
            raise refused
        if not message.get("more_body"):
            self.begin()
        return message

    async def send(self, message: Message) -> None:
        self.end()
        await self._send(message)

    def _left(self) -> float:
        """Seconds for the next part: what a caller sends buys it time."""
        allowed = self._settings.body_seconds + self._read / self._settings.body_rate
        return self._start + allowed - time.monotonic()

    def _late(self) -> Refused:
        return Refused(
            408, "too_slow", "the body of the request took too long to come",
            limit=self._settings.body_seconds, headers={"Connection": "close"},
        )  # fmt: skip


def long_address(settings: Settings) -> Refused:
    message = f"the address is longer than {settings.url:,} bytes"
    return Refused(414, "too_large", message, limit=settings.url)


def long_head(settings: Settings) -> Refused:
    message = f"the head of the request is larger than {settings.head:,} bytes"
    return Refused(431, "too_large", message, limit=settings.head)


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _length(headers: Headers) -> int:
    said = headers.get("content-length", "0")
    return int(said) if said.isdigit() else 0


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
