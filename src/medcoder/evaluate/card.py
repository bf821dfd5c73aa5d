"""Data cards: what a bench needs, where it comes from, and whether the files are the right ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medcoder.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Needed:
    """One file of a bench."""

    path: str  # below the folder of the bench
    columns: tuple[str, ...] = ()  # of its header, for tables
    rows: int | None = None  # without the header; None: any
    sha256: str | None = None  # None: any content
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Card:
    """A data set that is never part of the project."""

    name: str
    title: str
    about: str  # the protocol, in a few sentences
    origin: str  # where to get it
    licence: str
    files: tuple[Needed, ...]
    folder: str = ""  # below the folder of all data; by default the name
    metrics: tuple[str, ...] = ()  # those to show first
    reference: str = ""  # what to cite

    def place(self, data: Path) -> Path:
        """Its folder below the folder of all data, which may also be that folder itself."""
        inside = data / (self.folder or self.name)
        return inside if inside.is_dir() else data

    def check(self, data: Path) -> Path:
        """The folder with all of its files, or an error that says what is missing or wrong."""
        folder = self.place(data)
        for needed in self.files:
            file = folder / needed.path
            if not file.exists():
                if needed.optional:
                    continue
                raise InputError(
                    f"{self.title} needs {needed.path}, which is not there",
                    file=file,
                    remedy=f"Get it from {self.origin} ({self.licence})",
                )
            if needed.sha256 is not None and sha256(file) != needed.sha256:
                raise InputError(
                    f"this is not the file that the figures of {self.title} are for: "
                    f"its sha256 is {sha256(file)}, not {needed.sha256}",
                    file=file,
                    remedy=f"Get it again from {self.origin}, or use the bench `custom`",
                )
        return folder

    def fingerprint(self, data: Path) -> str:
        """Of the content of all its files that are there."""
        folder, digest = self.check(data), hashlib.sha256()
        for needed in self.files:
            file = folder / needed.path
            if file.is_file():
                digest.update(f"{needed.path} {sha256(file)}\n".encode())
        return digest.hexdigest()[:16]


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_table(
    file: Path, columns: Sequence[str], *, rows: int | None = None
) -> list[tuple[str, ...]]:
    """These columns of a tab-separated table with a header; quotes are part of the text.

    Fields may be missing at the end of a row only if they are not asked for.
    """
    found = list(_rows(file, columns))
    if rows is not None and len(found) != rows:
        raise InputError(
            f"it has {len(found):,} rows, and the figures are for {rows:,}",
            file=file,
            remedy="Get the file again, or use the bench `custom`",
        )
    return found


def _rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError("there is no such file", file=file, remedy="Check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"it is not UTF-8: {error.reason} at byte {error.start:,}",
            file=file,
            remedy="Convert it to UTF-8",
        ) from None
    lines = text.replace("\r\n", "\n").split("\n")  # splitlines breaks at U+2028 too
    header = lines[0].split("\t")
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r}; there are: {', '.join(header)}",
            file=file,
            row=1,
            remedy="The first line must name the columns, separated by tabs",
        )
    places = [header.index(column) for column in columns]
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) <= max(places):
            raise InputError(
                f"{len(fields)} fields, where the header has {len(header)}",
                file=file,
                row=number,
                remedy="Fields are separated by tabs, and quotes are part of the text",
            )
        yield tuple(fields[place] for place in places)
