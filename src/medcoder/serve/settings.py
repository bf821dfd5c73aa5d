"""Limits of the service. Those of single fields are part of its description (`api`)."""

from __future__ import annotations

from dataclasses import dataclass

from medcoder.errors import UsageError
from medcoder.tables.limits import Limits

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16  # characters


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one process takes on."""

    token: str | None = None  # asked for with every request; None: none is
    body: int = 4 << 20  # bytes of a request
    upload: int = 64 << 20  # bytes of an uploaded file
    unpacked: int = 1 << 30  # bytes of an uploaded table once it is unpacked
    uploads: int = 20  # that are kept; the oldest that no job needs goes first
    concepts: int = 4 << 30  # bytes of a CONCEPT table of OMOP, unpacked
    concept_tables: int = 2  # that are kept
    jobs: int = 2  # at a time
    together: bool = True  # whether requests that wait are looked up in one call
    batch: int = 256  # strings that go together
    queue: int = 5000  # strings that may wait
    answers: int = 2000  # that are kept in memory for the next who asks the same; 0: none
    wait: float = 5.0  # seconds to wait for another process that writes to a project
    # Of callers, so that none can hold what others need. Connections are more than requests, so
    # that there is always one to ask whether the service lives.
    connections: int = (
        512  # at a time; for a new one, the caller that dawdles longest loses its own
    )
    requests: int = 256  # at work at a time
    url: int = 32 << 10  # bytes of an address: a string of 2,000 characters of any script fits
    head: int = 64 << 10  # bytes of the head of a request
    head_seconds: float = 10.0  # to send the head of a request
    body_seconds: float = 20.0  # to send the body, and a second more for each `body_rate` bytes
    body_rate: int = 1000
    reply_seconds: float = 30.0  # for a caller that does not read its reply
    idle_seconds: int = 15  # that a connection is kept for a next request
    grace_seconds: int = 8  # between a signal to stop and the end, whatever is under way

    @property
    def limits(self) -> Limits:
        """What a table that was sent may be."""
        return Limits(
            unpacked=self.unpacked, held=64 << 20, row=4 << 20, cell=1_000_000, columns=16_384
        )

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise UsageError(
                "the token is too short",
                values=f"{len(self.token)} characters",
                remedy=f"Take at least {SHORTEST_TOKEN}, as `openssl rand -hex 24` gives them",
            )
