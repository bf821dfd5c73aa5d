"""Arrays and strings on disk, memory-mapped: raw numbers of a little-endian machine, and UTF-8.

An array is one file `NAME.DTYPE`; strings are two, `NAME.data` (UTF-8) and `NAME.offsets` (where
each begins, and the end), which is Arrow's own layout of large strings.
"""

from __future__ import annotations

import mmap
import stat
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medcoder.errors import ArtefactError

Array = npt.NDArray[Any]
_BLOCK = 1 << 20  # entries that are checked at a time


def view(array: Array) -> memoryview:
    """Plain integers by position, at a tenth of the price of indexing the array."""
    return memoryview(array)  # type: ignore[arg-type]


class ArrayWriter:
    """Append blocks of one dtype to a file."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = (folder / f"{name}.{dtype}").open("wb")

    def append(self, block: Array) -> None:
        self._file.write(np.ascontiguousarray(block, self.dtype).data)
        self.length += len(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


class StringWriter:
    """Append Arrow string arrays to a pair of files."""

    def __init__(self, folder: Path, name: str) -> None:
        self._data = (folder / f"{name}.data").open("wb")
        self._offsets = ArrayWriter(folder, f"{name}.offsets", "int64")
        self._offsets.append(np.zeros(1, np.int64))
        self._end = 0

    def append(self, strings: pa.LargeStringArray) -> None:
        offsets, data = raw_strings(strings)
        self._data.write(data.data)
        self._offsets.append(offsets[1:] - offsets[0] + self._end)
        self._end += len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._data.close()
        self._offsets.__exit__(kind, error, trace)


def raw_strings(strings: pa.LargeStringArray) -> tuple[Array, Array]:
    """Offsets (n + 1) and the bytes between the first and the last of them, without a copy."""
    _, offset_buffer, data_buffer = strings.buffers()
    size = len(strings)
    if size == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int64, size + 1, strings.offset * 8)
    if data_buffer is None:
        return offsets, np.zeros(0, np.uint8)
    data = np.frombuffer(data_buffer, np.uint8)
    return offsets, data[offsets[0] : offsets[-1]]


def write_array(folder: Path, name: str, array: Array) -> None:
    """A whole array as a file that `open_array` opens."""
    array.tofile(folder / f"{name}.{array.dtype}")


def open_array(folder: Path, name: str, dtype: str) -> Array:
    """A read-only array over the file's pages; nothing is read until it is used."""
    data, size = open_bytes(folder, f"{name}.{dtype}"), np.dtype(dtype).itemsize
    if len(data) % size:
        raise _wrong(folder / f"{name}.{dtype}", f"{len(data):,} bytes, {size} for each number")
    return np.frombuffer(data, np.dtype(dtype))


def open_rows(folder: Path, name: str, dtype: str, width: int) -> Array:
    """The same in rows of a width, (n, width)."""
    array = open_array(folder, name, dtype)
    if width < 1 or len(array) % width:
        raise _wrong(folder / f"{name}.{dtype}", f"{len(array):,} numbers, {width} in each row")
    return array.reshape(-1, width)


def open_bytes(folder: Path, name: str) -> mmap.mmap | bytes:
    """The bytes of a file, mapped."""
    path = folder / name
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):  # a pipe would be waited for
        raise _wrong(path, "it is not a file")
    if about.st_size == 0:  # an empty file cannot be mapped
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def check_bounds(path: Path, firsts: Array, *, count: int, end: int) -> None:
    """Whether `count` parts begin at the start of an array of `end`, and end where it ends.

    That they lie one after the other is not looked at: that would read all of them.
    """
    if len(firsts) != count + 1 or firsts[0] != 0 or firsts[-1] != end:
        raise _wrong(path, f"it does not divide {end:,} entries among {count:,}")


def check_ascending(path: Path, numbers: Array, *, strictly: bool = False) -> None:
    """Whether numbers ascend; reads all of them, a block at a time."""
    for start in range(0, max(len(numbers) - 1, 0), _BLOCK):
        block = numbers[start : start + _BLOCK + 1]
        wrong = block[1:] <= block[:-1] if strictly else block[1:] < block[:-1]
        if wrong.any():
            raise _wrong(path, f"entry {start + 1 + int(np.argmax(wrong)):,} is out of order")


def check_inside(path: Path, numbers: Array, count: int, *, least: int = 0) -> None:
    """Whether all numbers are from `least` to below `count`; reads them a block at a time."""
    for start in range(0, len(numbers), _BLOCK):
        block = numbers[start : start + _BLOCK]
        if block.size and (block.min() < least or block.max() >= count):
            wrong = int(np.argmax((block < least) | (block >= count)))
            raise _wrong(path, f"entry {start + wrong:,} is not below {count:,}")


def _wrong(path: Path, values: str) -> ArtefactError:
    return ArtefactError(
        "it is not as it should be", where=path, values=values, remedy="Copy or build it again"
    )


class Strings(Sequence[str]):
    """Memory-mapped strings."""

    def __init__(self, folder: Path, name: str) -> None:
        self.data = open_bytes(folder, f"{name}.data")
        self.offsets = open_array(folder, f"{name}.offsets", "int64")  # (n + 1,)
        self._ends = view(self.offsets)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, position: Any) -> Any:
        numbers = range(len(self))[position]
        return (
            self.at(numbers)
            if isinstance(numbers, int)
            else [self.at(number) for number in numbers]
        )

    def at(self, position: int) -> str:
        return self.data[self._ends[position] : self._ends[position + 1]].decode()

    def range(self, start: int, stop: int) -> list[str]:
        ends = self._ends[start : stop + 1].tolist()
        return [self.data[a:b].decode() for a, b in pairwise(ends)]
