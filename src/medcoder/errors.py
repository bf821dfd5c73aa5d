"""Every exception that medcoder raises on purpose.

MedcoderError                   exit code 1
├── UsageError                  2   an option or argument that makes no sense
│   ├── UnknownName             2   no such source, loss, index...; suggests the nearest
│   └── MissingExtra            2   an optional dependency is not installed
├── InputError                  3   bad data: which file, which row, what to do
├── ArtefactError               4   a directory that is not what it should be
│   └── NotFound                4   no such concept or file
├── DiskFull                    5   no room to write
├── NonFiniteLoss               6   training diverged
└── StaleDecision               7   somebody else decided meanwhile

The command line prints the message and exits with the code.
"""

from __future__ import annotations

from os import PathLike


class MedcoderError(Exception):
    """Root of the tree: catch this to catch them all."""

    exit_code = 1


class UsageError(MedcoderError):
    """An option or argument that makes no sense."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not in its table."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""


class InputError(MedcoderError):
    """Bad data, with its place and a remedy."""

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        file: str | PathLike[str] | None = None,
        row: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.what = what
        self.file = None if file is None else str(file)
        self.row = row
        self.remedy = remedy
        place = self.file or ""
        if row is not None:
            place += f"{', ' if place else ''}row {row:,}"
        message = f"{place}: {what}" if place else what
        super().__init__(f"{message}. {remedy}" if remedy else message)


class ArtefactError(MedcoderError):
    """A directory that is missing, damaged, of another kind or of another parent."""

    exit_code = 4


class NotFound(ArtefactError):
    """No such concept, file or entry."""


class DiskFull(MedcoderError):
    """No room to write."""

    exit_code = 5


class NonFiniteLoss(MedcoderError):
    """Training diverged: the loss is no number any more."""

    exit_code = 6


class StaleDecision(MedcoderError):
    """A decision on something that somebody else has changed since it was looked at.

    expected, found: the version that was seen, and the one that it has
    mine, theirs: the decision that was refused, and the one that stands; None for none
    """

    exit_code = 7

    def __init__(
        self, message: str, *, expected: int, found: int, mine: object = None, theirs: object = None
    ) -> None:
        super().__init__(message)
        self.expected, self.found = expected, found
        self.mine, self.theirs = mine, theirs
