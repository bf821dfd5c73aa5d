"""Arrays and strings on disk, memory-mapped: raw numbers of a little-endian machine, and UTF-8.

An array is one file `NAME.DTYPE`; strings are two, `NAME.data` (UTF-8) and `NAME.offsets` (where
each begins, and the end), which is Arrow's own layout of large strings.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]


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
    return np.frombuffer(open_bytes(folder, f"{name}.{dtype}"), np.dtype(dtype))


def open_bytes(folder: Path, name: str) -> mmap.mmap | bytes:
    """The bytes of a file, mapped."""
    path = folder / name
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


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
