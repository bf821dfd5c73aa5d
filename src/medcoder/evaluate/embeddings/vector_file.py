"""Vectors by key in a file that may be larger than memory.

The file is read through once, and of each entry only a hash and its position are kept: 20 bytes. A
vector is read, from where it lies, when somebody asks for it.

| form | content |
|---|---|
| word2vec binary | `count dimension`, then for each entry its key, a space, float32 numbers |
| word2vec text | the same with numbers written out, an entry a line; fastText's .vec too |
| text | lines without the header: GloVe, and concept vectors as `id v1 v2 ...` |
| csv | cui2vec: a header of quoted names, then `"id",v1,v2,...` |
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.benches.task import sha256
from medcoder.evaluate.results import Floats


class VectorFile:
    """Entries, numbered from 0 in the order of the file. Of several with one key, the first counts.

    `dimension`, `form` and `len()` say what was found.
    """

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file).expanduser()
        try:
            with self.file.open("rb") as stream:
                self._data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise InputError(
                "there is no such file", file=self.file, remedy="Check the path"
            ) from None
        except (OSError, ValueError) as error:  # a folder; an empty file
            raise InputError(
                f"it cannot be read: {error}", file=self.file, remedy="Name a file of vectors"
            ) from error
        self._layout = layout(self.file, self._data)
        if self._layout.dimension < 1:
            raise InputError(
                "its vectors have no dimension", file=self.file, row=1, remedy="Get the file again"
            )
        self.dimension = self._layout.dimension
        self.form = self._layout.form
        hashes, starts = array("q"), array("q")
        for key, start in entries(self._layout, self._data):
            hashes.append(hash(key))
            starts.append(start)
        self._starts = np.frombuffer(starts, np.int64) if starts else np.empty(0, np.int64)
        unsorted = np.frombuffer(hashes, np.int64) if hashes else np.empty(0, np.int64)
        # Stable, so that of equal keys the first comes first.
        self._order = np.argsort(unsorted, kind="stable").astype(np.uint32)
        self._hashes = unsorted[self._order]

    def __len__(self) -> int:
        return len(self._starts)

    @cached_property
    def fingerprint(self) -> str:
        return sha256(self.file)

    def find(self, key: str) -> int:
        """The entry of a key, or -1."""
        wanted = key.encode(errors="replace")
        hashed = hash(wanted)
        position = int(np.searchsorted(self._hashes, hashed))
        while position < len(self) and self._hashes[position] == hashed:
            number = int(self._order[position])
            if self._key(number) == wanted:  # other keys may have the same hash
                return number
            position += 1
        return -1

    def vector(self, number: int) -> Floats:
        """The numbers of an entry (d,)."""
        try:
            vector = numbers_at(self._layout, self._data, int(self._starts[number]))
            if not np.isfinite(vector).all():
                raise ValueError("one is not finite")
        except ValueError as error:
            start = int(self._starts[number])
            raise InputError(
                f"vectors must be made of numbers: {error}",
                file=self.file,
                row=row_of(self._layout, self._data, number, start),
                remedy=f"There are {self.dimension} after the key. Mend the row, or remove it",
            ) from None
        return vector

    def _key(self, number: int) -> bytes:
        return key_at(self._layout, self._data, int(self._starts[number]))


# The forms that files come in, and where each entry of one begins

Form = Literal["word2vec binary", "word2vec text", "text", "csv"]
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZ": "bzip2", b"\xfd7": "xz"}
_LONGEST = 4_096  # bytes of a key
_BYTES = 1 << 24  # bytes looked at at a time
_AGAIN = "Get the file again: it may have been cut off"


@dataclass(frozen=True, kw_only=True)
class Layout:
    file: Path
    form: Form
    dimension: int
    count: int | None  # that the file says it has
    start: int  # where the first entry begins
    first_row: int  # its line
    separator: bytes


def layout(file: Path, data: mmap.mmap) -> Layout:
    """What the first lines show."""
    for magic, packed in _PACKED.items():
        if data[:2] == magic:
            raise InputError(f"it is a {packed} file", file=file, remedy="Unpack it first")
    end = data.find(b"\n") + 1 or len(data)
    line = data[:end].strip()
    if 0 < line.count(b",") >= line.count(b" "):  # in others, a word may have commas
        return _lines(file, data, "csv", b",", end, line.split(b","))
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        count, dimension = map(int, fields)
        text = _is_text(data, end, dimension)
        return Layout(
            file=file,
            form="word2vec text" if text else "word2vec binary",
            dimension=dimension,
            count=count,
            start=end,
            first_row=2 if text else 1,
            separator=(text or b" "),
        )
    separator = b"\t" if b"\t" in line else b" "
    return _lines(file, data, "text", separator, end, line.split(separator))


def entries(layout: Layout, data: mmap.mmap) -> Iterator[tuple[bytes, int]]:
    """The key and the first byte of every entry, in order; every one has been measured."""
    count = 0
    each = _binary if layout.form == "word2vec binary" else _text
    for entry in each(layout, data):
        count += 1
        yield entry
    if layout.count is not None and count != layout.count:
        raise InputError(
            f"it has {count:,} vectors, and its first line says {layout.count:,}",
            file=layout.file,
            row=1,
            remedy=_AGAIN,
        )


def key_at(layout: Layout, data: mmap.mmap, start: int) -> bytes:
    """The key of the entry that begins at `start`."""
    if layout.form == "word2vec binary":
        return data[start : data.find(b" ", start)]
    return _bare(layout, _line(data, start).rsplit(layout.separator, layout.dimension)[0])


def numbers_at(layout: Layout, data: mmap.mmap, start: int) -> Floats:
    """The vector of the entry that begins at `start`; ValueError if it is not of numbers."""
    if layout.form == "word2vec binary":
        first = data.find(b" ", start) + 1
        numbers = data[first : first + 4 * layout.dimension]
        return np.frombuffer(numbers, "<f4").astype(np.float32)
    _, *values = _line(data, start).rsplit(layout.separator, layout.dimension)
    return np.array([float(value) for value in values], np.float32)


def row_of(layout: Layout, data: mmap.mmap, number: int, start: int) -> int:
    """Where an entry is found by somebody who opens the file; of binary ones, their number."""
    if layout.form == "word2vec binary":
        return number + 1
    parts = range(0, start, _BYTES)
    return 1 + sum(data[at : min(at + _BYTES, start)].count(b"\n") for at in parts)


def _lines(
    file: Path, data: mmap.mmap, form: Form, separator: bytes, end: int, fields: list[bytes]
) -> Layout:
    """Lines with or without names of the columns above them."""
    if len(fields) < 2 or b"\0" in data[:end]:
        raise InputError(
            "its first line is neither `count dimension` nor a key and numbers",
            file=file,
            row=1,
            remedy="Forms are word2vec text and binary, GloVe text, and CSV with an id per line",
        )
    header = not all(_is_number(field) for field in fields[1:])
    if header and form != "csv":
        raise InputError(
            f"the vector of {fields[0].decode(errors='replace')!r} is not made of numbers",
            file=file,
            row=1,
            remedy="A line holds a key and its numbers, separated by spaces or tabs",
        )
    return Layout(
        file=file,
        form=form,
        dimension=len(fields) - 1,
        count=None,
        start=end if header else 0,
        first_row=2 if header else 1,
        separator=separator,
    )


def _line(data: mmap.mmap, start: int) -> bytes:
    return data[start : data.find(b"\n", start) + 1 or len(data)].rstrip()


def _is_text(data: mmap.mmap, start: int, dimension: int) -> bytes | None:
    """What separates the numbers of the first entry, if they are written out."""
    line = _line(data, start)
    for separator in (b" ", b"\t"):
        _, *values = line.rsplit(separator, dimension)
        if values and all(_is_number(value) for value in values):
            return separator
    return None


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _bare(layout: Layout, key: bytes) -> bytes:
    return key.strip(b'"') if layout.form == "csv" else key


def _binary(layout: Layout, data: mmap.mmap) -> Iterator[tuple[bytes, int]]:
    at, size = layout.start, 4 * layout.dimension
    for row in range(1, (layout.count or 0) + 1):
        while data[at : at + 1] == b"\n":  # some writers end entries so
            at += 1
        space = data.find(b" ", at, at + _LONGEST)
        if space < 0 or space + 1 + size > len(data):
            raise InputError(
                f"it ends within a vector, and its first line says {layout.count:,} "
                f"of dimension {layout.dimension}",
                file=layout.file,
                row=row,
                remedy=_AGAIN,
            )
        yield data[at:space], at
        at = space + 1 + size
    if data[at : at + _LONGEST].strip():
        raise InputError(
            f"there is more after the {layout.count:,} vectors that its first line says",
            file=layout.file,
            row=layout.count,
            remedy=_AGAIN,
        )


def _text(layout: Layout, data: mmap.mmap) -> Iterator[tuple[bytes, int]]:
    data.seek(layout.start)
    at, row = layout.start, layout.first_row
    separator, dimension = layout.separator, layout.dimension
    while raw := data.readline():
        line = raw.rstrip()
        if line:
            numbers = line.count(separator)
            if numbers == dimension:
                key = line[: line.index(separator)]
            else:
                key, *values = line.rsplit(separator, dimension)
                # Words with a space are found in GloVe; a number in its place is one too many.
                last = key.rsplit(separator, 1)[-1]
                if len(values) < dimension or (b"." in last and _is_number(last)):
                    raise InputError(
                        f"{numbers} numbers, where others have {dimension}",
                        file=layout.file,
                        row=row,
                        remedy=_AGAIN,
                    )
            yield _bare(layout, key), at
        at += len(raw)
        row += 1
