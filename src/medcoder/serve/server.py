"""The server: uvicorn, with limits on what callers can hold on to.

uvicorn by itself takes any number of connections, and waits for ever for the head of a request, for
its body, and for a caller to read the reply. The body is timed where it is read, in `middleware`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from medcoder.serve.error_replies import Refused, too_many
from medcoder.serve.middleware import HEADERS, long_address, long_head
from medcoder.serve.settings import Settings

if TYPE_CHECKING:
    from socket import socket

LOGGER = logging.getLogger("medcoder.serve")
SPARE = 256  # files that are open besides connections: projects, uploads, those not yet dropped
_BACKLOG = 64  # connections that are taken in one go, before any can be dropped
_TIDY = 2  # seconds of the grace for what is left to do when the last request is answered


class Config(uvicorn.Config):
    """That of uvicorn, and the limits."""

    def __init__(self, app: Any, settings: Settings, **options: Any) -> None:
        self.settings = settings
        super().__init__(
            app,
            http=Connection,
            ws="none",
            loop="asyncio",
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            h11_max_incomplete_event_size=settings.head,
            timeout_keep_alive=settings.idle_seconds,
            timeout_graceful_shutdown=max(settings.grace_seconds - _TIDY, 1),
            **options,
        )


class Connection(H11Protocol):
    """A connection that is dropped if its caller dawdles."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.settings = cast(Config, self.config).settings
        self.since = self.loop.time()  # that it is the turn of the caller, if it is
        self._head: float | None = self.since  # when the head that is awaited began
        self._unread: float | None = None  # when a reply began to wait for its reader
        super().connection_made(transport)
        if len(self.connections) > self.settings.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        now = self.loop.time()
        if self._answered and self._head is None:
            self._head = now
        super().data_received(data)
        if not self._answered:
            self._head, self.since = None, now

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._unread = self.since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Of what is no HTTP, or too long."""
        error = sys.exception()
        refused = Refused(400, "http", "the request is not valid HTTP")
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            refused = long_address(self.settings)
            if b"\n" in self.conn.trailing_data[0]:  # the address is there, and more
                refused = long_head(self.settings)
        self._refuse(refused)

    def check(self, now: float) -> None:
        """Drop it if its time is over."""
        if self._head is not None and now - self._head > self.settings.head_seconds:
            self._head = None
            if self.conn.trailing_data[0]:
                late = "the head of the request took too long to come"
                self._refuse(Refused(408, "too_slow", late, limit=self.settings.head_seconds))
            else:
                self.transport.close()
        if self.transport.is_closing() and self._unread is None:
            self._unread = now  # what is left to send may find no reader
        if self._unread is not None and now - self._unread > self.settings.reply_seconds:
            self.drop()

    def drop(self) -> None:
        """End it now, whatever is left to send."""
        self.connections.discard(self)  # at once: the next one that is too many drops another
        self.transport.abort()

    @property
    def dawdles(self) -> bool:
        """Whether it is the turn of the caller: to send a request, or all of one, or to read."""
        return self._answered or self.cycle.more_body or self._unread is not None

    @property
    def half_sent(self) -> bool:
        return not self._answered and self.cycle.more_body and not self.cycle.response_started

    @property
    def _answered(self) -> bool:
        """Whether nothing is asked for at the moment."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Drop another: of the address that dawdles most, the one that does so longest.

        So that new callers get in, however many connections somebody holds.
        """
        others = [
            one
            for one in self.connections
            if isinstance(one, Connection) and one is not self and one.dawdles
        ]
        if not others:
            self._refuse(too_many("too_many_requests", "too many requests are at work"))
            return
        held = Counter(one.address for one in others)
        max(others, key=lambda one: (held[one.address], -one.since)).drop()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def _refuse(self, refused: Refused) -> None:
        """Reply if that is still possible, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            reply = refused.reply()
            headers = [*reply.raw_headers, *_HEADERS, (b"connection", b"close")]
            status = refused.status_code
            events = (
                h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
                h11.Data(data=bytes(reply.body)),
                h11.EndOfMessage(),
            )
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Server(uvicorn.Server):
    """Ends in time: `grace_seconds` after a signal, at once after a second one.

    begun: is called with the addresses that it listens to
    """

    def __init__(self, config: Config, begun: Callable[[list[Any]], None]) -> None:
        super().__init__(config)
        self._settings, self._begun = config.settings, begun
        self._stopping = False

    def _log_started_message(self, listeners: Any) -> None:
        self._begun([one.getsockname() for server in self.servers for one in server.sockets])

    async def on_tick(self, counter: int) -> bool:
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.check(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        for connection in self._connections():
            if connection.half_sent:
                connection.drop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._stopping:
            os._exit(128 + sig)
        self._stopping = self.should_exit = True
        # A look-up or a step of a job cannot be broken off from inside. All that was acknowledged
        # is on disk, and jobs go on at the next start: the end may come at any moment.
        watch = threading.Timer(self._settings.grace_seconds, _end)
        watch.daemon = True
        watch.start()

    def _connections(self) -> list[Connection]:
        found = list(self.server_state.connections)
        return [one for one in found if isinstance(one, Connection)]


def _end() -> None:
    LOGGER.warning("what was under way at the end of the grace period is broken off")
    os._exit(0)
