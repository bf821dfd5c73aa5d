"""One OBO file: its header and its frames, with every fault placed at a line.

The parser is strict about syntax and wants UTF-8, a newline at the end and no byte order mark;
the stream between it and the file sees to the last two, and finds the line of a bad byte.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import fastobo

from medcoder.errors import InputError, TooLarge
from medcoder.tables.limits import bytes_taken, open_bytes
from medcoder.tables.text import FAULTS, bad_byte, check_file, fault
from medcoder.tables.unquoted import size_of

_LONGEST = 1 << 24  # bytes of a frame: the parser holds it as a whole, and ten times as much
_RELEASE = re.compile(r"releases/([^/]+)")


@dataclass(frozen=True)
class Header:
    """What an OBO header says about its ontology."""

    ontology: str = ""  # "hp"
    version: str = ""  # "2025-01-16" of "hp/releases/2025-01-16"
    title: str = ""
    namespace: str = ""  # of the frames that name none
    synonym_types: dict[str, str] = field(default_factory=dict)  # id -> description


class OboFile:
    """A plain or gzipped OBO file, and how far reading it has come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = size_of(path)
        self._stream: _Stream | None = None

    @property
    def done(self) -> int:
        """Bytes of the file on disk that `frames` has taken in so far."""
        return self._stream.done if self._stream else 0

    def header(self) -> Header:
        with _open(self.path) as raw, closing(_parse(_Stream(self.path, raw))) as frames:
            return _header(next(frames))

    def frames(self) -> Generator[Any]:
        """Term, typedef and instance frames in the order of the file."""
        with _open(self.path) as raw:
            self._stream = _Stream(self.path, raw)
            frames = _parse(self._stream)
            next(frames)
            yield from frames

    def line_of_id(self, name: str, nth: int) -> int | None:
        """Line of the nth "id:" clause with that id; for messages only."""
        with _open(self.path) as raw:
            for number, line in enumerate(raw, 1):
                tag, _, value = line.partition(b":")
                if tag == b"id" and value.split()[:1] == [name.encode()]:
                    nth -= 1
                    if nth == 0:
                        return number
        return None


class _Stream:
    """Bytes for the parser. A fault ends the stream and waits in `error`."""

    def __init__(self, path: Path, raw: IO[bytes]) -> None:
        self.path = path
        self.error: InputError | None = None
        self.done = 0
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._lines = 0  # ends of line seen so far
        self._last = b""
        self._start = True
        self._frame = 0  # bytes since a frame began

    def read(self, size: int) -> bytes:
        if size == 0 or self.error is not None:
            return b""
        try:
            block = self._raw.read(size)
            while self._start and 0 < len(block) < 3 and (more := self._raw.read(size)):
                block += more
            if self._start:
                block = block.removeprefix(codecs.BOM_UTF8)
                self._start = False
            self._decoder.decode(block, final=not block)
        except FAULTS as error:
            self.error = fault(self.path, error, self._lines + 1)
            return b""
        except InputError as error:  # it unpacks to too much
            self.error = error
            return b""
        except UnicodeDecodeError as error:
            row = self._lines + error.object.count(b"\n", 0, error.start) + 1
            remedy = "Copy or download it again, as UTF-8"
            byte = error.object[error.start]
            self.error = bad_byte(byte, file=self.path, row=row, remedy=remedy)
            return b""
        finally:
            self.done = bytes_taken(self._raw)
        if not block and self._last not in (b"", b"\n"):
            block = b"\n"
        self._frame += len(block)
        if self._frame > _LONGEST:
            begin = block.rfind(b"\n[")
            self._frame = len(block) - begin if begin >= 0 else self._frame
            if self._frame > _LONGEST:
                self.error = TooLarge(
                    f"a frame of more than {_LONGEST >> 20} MB",
                    file=self.path,
                    row=self._lines + 1,
                    remedy="A frame begins with a line such as [Term]: look for what is missing",
                    limit=_LONGEST,
                )
                return b""
        self._lines += block.count(b"\n")
        self._last = block[-1:]
        return block


def _parse(stream: _Stream) -> Generator[Any]:
    """The header frame, then the others, with the parser's complaints as our errors."""
    try:
        reader = fastobo.iter(stream, threads=1)
        yield reader.header()
        yield from reader
    except SyntaxError as error:
        if stream.error is not None:
            raise stream.error from error
        raise InputError(
            "not OBO syntax",
            values=f"{error.msg}, found {(error.text or '').strip()[:100]!r}",
            file=stream.path,
            row=error.lineno,
            remedy="Correct the line, or convert the file with ROBOT (robot convert)",
        ) from error
    except (OSError, TypeError, ValueError) as error:
        if stream.error is not None:
            raise stream.error from error
        raise InputError("cannot be read", values=error, file=stream.path) from error
    if stream.error is not None:
        raise stream.error


def _open(path: Path) -> IO[bytes]:
    check_file(path)
    try:
        return open_bytes(path)
    except OSError as error:
        raise fault(path, error) from error


def _header(frame: Any) -> Header:
    values: dict[str, str] = {}
    types: dict[str, str] = {}
    for clause in frame:
        tag = clause.raw_tag()
        if tag == "synonymtypedef":
            types[str(clause.typedef)] = clause.description
        elif tag == "property_value":
            relation = str(clause.property_value.relation)
            if re.split("[:#/]", relation)[-1] == "title":
                values.setdefault("title", str(clause.property_value.value))
        else:
            values.setdefault(tag, clause.raw_value())
    version = values.get("data-version", "")
    release = _RELEASE.search(version)
    return Header(
        ontology=values.get("ontology", "").lower().removesuffix(".obo").removesuffix(".owl"),
        version=release[1] if release else version,
        title=values.get("title", ""),
        namespace=values.get("default-namespace", ""),
        synonym_types=types,
    )
