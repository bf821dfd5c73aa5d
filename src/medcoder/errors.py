"""Every exception that medcoder raises on purpose.

MedcoderError                   exit code 1
├── UsageError                  2   an option or argument that makes no sense
│   ├── UnknownName             2   no such source, loss, index...; suggests the nearest
│   └── MissingExtra            2   an optional dependency is not installed
├── InputError                  3   bad data: which file, which row, what to do
│   └── TooLarge                3   a file that holds or unpacks to more than is allowed
├── ArtefactError               4   a directory that is not what it should be
│   └── NotFound                4   no such concept or file
├── DiskFull                    5   no room to write
├── NonFiniteLoss               6   training diverged
└── StaleDecision               7   somebody else decided meanwhile

An error has parts. The command line prints them together and exits with the code; the service
shows `what` alone, because the other parts may quote what somebody typed or stored.
"""

from __future__ import annotations

from os import PathLike
from typing import Any


class MedcoderError(Exception):
    """Root of the tree: catch this to catch them all.

    what: what went wrong, in words that are the same for every user: no path, no cell, no query
    where: the file, the row or the setting
    values: what was found there; several are separated by commas
    remedy: what to do about it

    >>> print(MedcoderError("not a number", where="a.csv, row 2", values="'x'", remedy="Mend it"))
    a.csv, row 2: not a number: 'x'. Mend it
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | PathLike[str] | None = None,
        values: object = None,
        remedy: str | None = None,
        message: str | None = None,
    ) -> None:
        """`message` replaces the text that the parts make, where a sentence reads better."""
        self.what = what
        self.where = None if where is None else str(where)
        self.values = values
        self.remedy = remedy
        if message is None:
            message = f"{self.where}: {what}" if self.where else what
            if values is not None:
                several = isinstance(values, (list, tuple))
                message += f": {', '.join(map(str, values)) if several else values}"  # type: ignore[call-overload]
            message += f". {remedy}" if remedy else ""
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """So that an error that another process raised keeps its parts, whatever made it."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[MedcoderError], args: tuple[Any, ...], parts: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class UsageError(MedcoderError):
    """An option or argument that makes no sense."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not in its table."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""


class InputError(MedcoderError):
    """Bad data. It concerns a file, a row of it, or both; or `where` says it in words."""

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        file: str | PathLike[str] | None = None,
        row: int | None = None,
        where: str | PathLike[str] | None = None,
        values: object = None,
        remedy: str | None = None,
    ) -> None:
        self.file = None if file is None else str(file)
        self.row = row
        parts = [self.file, None if where is None else str(where)]
        parts += [None if row is None else f"row {row:,}"]
        joined = ", ".join(filter(None, parts))
        super().__init__(what, where=joined or None, values=values, remedy=remedy)


class TooLarge(InputError):
    """A file that holds, or unpacks to, more than is allowed; `limit` is the number."""

    def __init__(self, what: str, *, limit: int | None = None, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.limit = limit


class ArtefactError(MedcoderError):
    """A directory that is missing, damaged, of another kind or of another parent."""

    exit_code = 4


class NotFound(ArtefactError):
    """No such concept, file or entry."""


class DiskFull(MedcoderError):
    """No room to write."""

    exit_code = 5


class NonFiniteLoss(MedcoderError):
    """Training diverged: the loss is not a number any more."""

    exit_code = 6


class StaleDecision(MedcoderError):
    """A decision on something that somebody else has changed since it was looked at.

    expected, found: the version that was seen, and the one that it has
    mine, theirs: the decision that was refused, and the one that stands; None for none
    """

    exit_code = 7

    def __init__(
        self,
        what: str,
        *,
        expected: int,
        found: int,
        mine: object = None,
        theirs: object = None,
        where: str | PathLike[str] | None = None,
        values: object = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what, where=where, values=values, remedy=remedy)
        self.expected, self.found = expected, found
        self.mine, self.theirs = mine, theirs
