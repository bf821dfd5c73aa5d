"""Strings that commands work on: arguments, lines of a file, lines of standard input."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from medcoder.cli.command import progress_bar
from medcoder.cli.options import user_path
from medcoder.errors import InputError, TooLarge, UsageError

Batch = list[str]
Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT...", help="Strings.")]
File = Annotated[
    Path | None, typer.Option("--file", help="Strings, one a line; - is standard input.")
]
_BATCH = 512  # strings at a time
_BLOCK = 1 << 18  # bytes read at a time, if there are as many already
_LONGEST = 1 << 24  # bytes of a line
_STANDARD_INPUT = "standard input"
_BOM = b"\xef\xbb\xbf"


@contextlib.contextmanager
def given(
    texts: Sequence[str] | None, file: Path | None, *, doing: str
) -> Iterator[Iterator[Batch]]:
    """Strings in batches, as they come: what a slow writer has sent so far does not wait."""
    if texts and file is not None:
        raise UsageError("give either strings or --file, not both")
    if texts:
        yield (list(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH))
    elif file is not None and file != Path("-"):
        with _opened(user_path(file)) as stream, _bar(doing) as report:
            size = os.fstat(stream.fileno()).st_size
            yield _batches(stream, str(file), lambda done: report(done, max(done, size)))
    elif sys.stdin is None or (file is None and sys.stdin.isatty()):
        raise UsageError("give strings, or --file, or lines on standard input")
    else:
        yield _batches(sys.stdin.buffer, _STANDARD_INPUT, lambda done: None)


def _batches(stream: Any, name: str, report: Callable[[int], None]) -> Iterator[Batch]:
    row = done = 0
    for lines in _lines(stream, name):
        for start in range(0, len(lines), _BATCH):
            batch: Batch = []
            for line in lines[start : start + _BATCH]:
                row, done = row + 1, done + len(line) + 1
                try:
                    batch.append(_decoded(line, first=row == 1))
                except UnicodeDecodeError as error:
                    if batch:  # good lines before a bad one are not lost
                        yield batch
                    from medcoder.tables.text import bad_byte

                    raise bad_byte(error.object[error.start], file=name, row=row) from error
            yield batch
            report(done)


def _lines(stream: Any, name: str) -> Iterator[list[bytes]]:
    """The lines of each block that comes, without their ends."""
    parts: list[bytes] = []  # of a line that goes on
    row, length = 1, 0
    while block := stream.read1(_BLOCK):
        parts.append(block)
        length += len(block)
        if b"\n" in block:
            *lines, rest = b"".join(parts).split(b"\n")
            parts, length = [rest], len(rest)
            yield lines
            row += len(lines)
        elif length > _LONGEST:
            raise TooLarge(
                f"a line of more than {_LONGEST >> 20} MB",
                file=name,
                row=row,
                remedy="Give strings one a line: line ends may be missing, or it may be no text",
                limit=_LONGEST,
            )
    if last := b"".join(parts):
        yield [last]


def _decoded(line: bytes, *, first: bool) -> str:
    if first:
        line = line.removeprefix(_BOM)
    return line.removesuffix(b"\r").decode()


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        stream = file.open("rb")
    except FileNotFoundError as error:
        raise InputError("does not exist", file=file, remedy="Check the path") from error
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        remedy = "Name a file of strings that you may read"
        raise InputError(what, file=file, remedy=remedy) from error
    with stream:
        yield stream


@contextlib.contextmanager
def _bar(doing: str) -> Iterator[Callable[[int, int], None]]:
    """Progress in bytes; none where the output goes to the same terminal."""
    if sys.stdout is None or sys.stdout.isatty():
        yield lambda done, total: None
        return
    with progress_bar() as report:
        yield lambda done, total: report(doing, done, total)
