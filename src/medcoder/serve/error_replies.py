"""Errors as replies: a code, a sentence and a limit, and nothing that was typed or stored.

Errors of the library have parts. A reply says what went wrong and in which row; the files and
values that the other parts quote may be about a patient.
"""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse

from medcoder.errors import (
    DiskFull,
    InputError,
    MedcoderError,
    MissingExtra,
    NotFound,
    StaleDecision,
    TooLarge,
    UnknownName,
)

RETRY = 1  # seconds, as Retry-After has it
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# What pydantic calls a limit that was passed, and where it says which.
_LIMITS = {
    "too_long": "max_length",
    "string_too_long": "max_length",
    "less_than_equal": "le",
    "less_than": "lt",
}


class Refused(HTTPException):
    """A request that is answered with an error.

    One of HTTP, so that the framework lets it through where it reads a body.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        limit: float | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, code, dict(headers or {}))
        self.code, self.message = code, message
        self.limit, self.more = limit, more

    def reply(self) -> JSONResponse:
        error = {"code": self.code, "message": self.message, **self.more}
        if self.limit is not None:
            error["limit"] = self.limit
        return JSONResponse({"error": error}, self.status_code, self.headers)


def busy(code: str, message: str, seconds: int = RETRY) -> Refused:
    """Come back later."""
    return Refused(503, code, message, headers={"Retry-After": str(seconds)})


def too_many(code: str, message: str, *, limit: int | None = None, seconds: int = RETRY) -> Refused:
    """Come back when others are done."""
    headers = {"Retry-After": str(seconds)}
    return Refused(429, code, message, limit=limit, headers=headers)


def no_room() -> Refused:
    return Refused(507, "disk_full", "no room is left on the disk of the service")


def library_reply(error: MedcoderError) -> Refused:
    """What a reply says of an error of the library."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _BUSY:
        return busy("busy", "another process is writing to this project. Try again")
    if isinstance(error, StaleDecision):
        return _stale(error)
    if isinstance(error, DiskFull):
        return no_room()
    if isinstance(error, UnknownName):
        return Refused(
            404, "unknown_name", "there is no such type, vocabulary or language. See /v1/filters"
        )
    if isinstance(error, MissingExtra):
        return Refused(501, "not_installed", "the service runs without what this needs")
    if isinstance(error, NotFound):
        return Refused(404, "not_found", "there is no such concept, term or project")
    if isinstance(error, TooLarge):
        return Refused(413, "too_large", input_message(error), limit=error.limit)
    if isinstance(error, InputError):
        return Refused(422, "bad_input", input_message(error))
    return Refused(422, "refused", error.what)


def input_message(error: InputError) -> str:
    """What is wrong with a table, with the row and without a value of it."""
    row = "" if error.row is None else f"row {error.row:,}: "
    return row + error.what


def validation_reply(errors: Sequence[Any], known: frozenset[str]) -> Refused:
    """What is wrong with a request, by the names of its fields; what was sent is not repeated.

    known: names that the description has; others were sent
    """
    first = errors[0]
    kind, context = first["type"], first.get("ctx") or {}
    where = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in known)
    if kind == "json_invalid":
        return Refused(422, "invalid", "the body is not valid JSON")
    limit = context.get(_LIMITS.get(kind, ""))
    code = "limit" if limit is not None else "invalid"
    message = _message(kind, first["msg"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Refused(422, code, f"{where}: {message}{more}" if where else message, limit=limit)


def _message(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "there is a field that this does not take"
    if kind in ("value_error", "assertion_error"):  # words of a validator, which may quote
        return "it is not as it should be"
    return message[:1].lower() + message[1:]


def decision_entry(decision: Any) -> dict[str, Any] | None:
    """A decision as JSON has it; None where there is none."""
    if decision is None:
        return None
    return asdict(decision) | {"codes": [code._asdict() for code in decision.codes]}


def failure_place(error: BaseException) -> str:
    """An error by its kind and where it came from; its message may hold what was sent."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-6:])
    return f"{type(error).__name__} at {places}"


def _stale(error: StaleDecision) -> Refused:
    return Refused(
        409, "stale", "somebody else decided on it since you looked. Look at it again",
        expected=error.expected, found=error.found, mine=decision_entry(error.mine),
        theirs=decision_entry(error.theirs),
    )  # fmt: skip
