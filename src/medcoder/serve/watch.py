"""Every request counted, timed and logged by its route; no failure gets out as it is."""

from __future__ import annotations

import logging
import time
import traceback

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medcoder.serve.metrics import Metrics
from medcoder.serve.refusals import Refused
from medcoder.serve.security import with_headers

LOGGER = logging.getLogger("medcoder.serve")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_OTHER = "other"  # addresses that lead nowhere: anything may stand in them


class Watch:
    """The outermost layer."""

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
            LOGGER.error("%s", told(error))
            if not status:
                failed = Refused(500, "internal", "something went wrong: the log says where")
                await failed.reply()(scope, receive, with_headers(scope, watched))
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", _OTHER) or _OTHER
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._metrics.request(method, route, status, seconds)
            LOGGER.info("%s %s %d %.1f ms", method, route, status, 1000 * seconds)


def told(error: BaseException) -> str:
    """An error by its kind and its place; its message may hold what was sent."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-6:])
    return f"{type(error).__name__} at {places}"
