"""The stored rows as an index reads them: millions of them, without filling the memory."""

from __future__ import annotations

import mmap
import os
import weakref

import numpy as np
import numpy.typing as npt

from medcoder.arrays import view
from medcoder.vectors import ROWS, Vectors, widen

_MAPPED = 1 << 30  # bytes that may be mapped at a time
_AT_ONCE = 1 << 12  # rows widened at a time


class Stored:
    """Rows by slice or by number.

    Pages of a mapped file count as memory of the process while they are mapped, and a row may
    bring two megabytes along. So large files are let go of before their pages add up, and single
    rows are read instead of mapped. The system keeps both in its cache as it sees fit.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._rows: npt.NDArray[np.float16] = vectors.rows
        self._map: mmap.mmap | None = None
        self._file: int | None = None
        self._touched = 0
        # Other systems cannot let go of pages, or read at a position; they map.
        if vectors.rows.nbytes > _MAPPED and hasattr(os, "preadv"):
            self._map = _mapping(vectors.rows)
            self._file = os.open(vectors.path / f"{ROWS}.float16", os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, part: slice, /) -> npt.NDArray[np.float16]:
        rows = self._rows[part]
        if self._map is not None:
            self._touched += rows.nbytes
            if self._touched > _MAPPED:
                self._map.madvise(mmap.MADV_DONTNEED)
                self._touched = rows.nbytes
        return rows

    def halves(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float16]:
        """A copy of some rows."""
        if self._file is None:
            return self._rows[numbers]
        rows = np.empty((len(numbers), self._rows.shape[1]), np.float16)
        size = self._rows.itemsize * self._rows.shape[1]
        buffer = view(rows).cast("B")
        for position, number in zip(range(0, rows.nbytes, size), numbers.tolist(), strict=True):
            os.preadv(self._file, [buffer[position : position + size]], number * size)
        return rows

    def take(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Some rows in float32."""
        rows = np.empty((len(numbers), self._rows.shape[1]), np.float32)
        for start in range(0, len(numbers), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            rows[some] = widen(self.halves(numbers[some]))
        return rows


def _mapping(array: object) -> mmap.mmap | None:
    """The mapped file under an array, if there is one."""
    while isinstance(array, np.ndarray):
        array = array.base
    file = array.obj if isinstance(array, memoryview) else array
    return file if isinstance(file, mmap.mmap) else None
