"""Limits of the service. Those of single fields are part of its description (`api`)."""

from __future__ import annotations

from dataclasses import dataclass

from medcoder.errors import UsageError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16  # characters


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one process takes on."""

    token: str | None = None  # asked for with every request; None: none is
    body: int = 4 << 20  # bytes of a request
    upload: int = 64 << 20  # bytes of an uploaded file
    unpacked: int = 1 << 30  # bytes of an uploaded workbook once it is unpacked
    uploads: int = 20  # that are kept; the oldest that no job needs goes first
    concepts: int = 4 << 30  # bytes of a CONCEPT table of OMOP, unpacked
    concept_tables: int = 2  # that are kept
    jobs: int = 2  # at a time
    together: bool = True  # whether requests that wait are looked up in one call
    batch: int = 256  # strings that go together
    queue: int = 5000  # strings that may wait
    wait: float = 5.0  # seconds to wait for another process that writes to a project

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise UsageError(
                "the token is too short",
                values=f"{len(self.token)} characters",
                remedy=f"Take at least {SHORTEST_TOKEN}, as `openssl rand -hex 24` gives them",
            )
