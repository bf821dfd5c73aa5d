"""Sort more 64-bit keys than fit in memory: sorted runs on disk, merged block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from medcoder.kg.columns import Array

_BLOCK = 1 << 20  # keys of each run held while merging: 8 MB


class SortedRuns:
    """Add keys in any order; take them back ascending, each once.

    Memory: at most `memory` bytes, half of it while sorting. Keys are written to `folder` each
    time the buffer is full.
    """

    def __init__(self, folder: Path, name: str, *, memory: int) -> None:
        self._folder = folder
        self._name = name
        self._capacity = max(memory // 16, 1024)
        self._buffer = np.empty(0, np.uint64)
        self._used = 0
        self._runs: list[Path] = []

    def add(self, keys: Array) -> None:
        while len(keys):
            if self._used == len(self._buffer):
                self._grow()
            part = keys[: len(self._buffer) - self._used]
            self._buffer[self._used : self._used + len(part)] = part
            self._used += len(part)
            keys = keys[len(part) :]

    def ascending(self) -> Iterator[Array]:
        """Blocks of distinct keys in ascending order. The keys are gone afterwards."""
        if not self._runs:
            yield from self._sorted_buffer()
            self._buffer = np.empty(0, np.uint64)
            return
        self._flush()
        self._buffer = np.empty(0, np.uint64)
        yield from _merge(self._runs)
        for run in self._runs:
            run.unlink()
        self._runs.clear()

    def _grow(self) -> None:
        """Double the buffer up to its limit; at the limit, write it out."""
        if self._used >= self._capacity:
            self._flush()
            return
        larger = np.empty(min(max(2 * self._used, 1 << 16), self._capacity), np.uint64)
        larger[: self._used] = self._buffer[: self._used]
        self._buffer = larger

    def _sorted_buffer(self) -> Iterator[Array]:
        keys = pl.Series(self._buffer[: self._used]).sort().to_numpy()  # twice as fast as numpy
        last: Array = keys[:0]
        for start in range(0, len(keys), _BLOCK):
            block = _distinct(keys[start : start + _BLOCK], last)
            last = block[-1:] if len(block) else last
            yield block
        self._used = 0

    def _flush(self) -> None:
        path = self._folder / f"{self._name}.{len(self._runs)}.run"
        with path.open("wb") as file:
            for block in self._sorted_buffer():
                file.write(block.data)
        self._runs.append(path)


def _merge(paths: list[Path]) -> Iterator[Array]:
    """Everything up to the smallest last key of the blocks at hand is complete: give it out."""
    with_files = [path.open("rb") for path in paths]
    try:
        heads = [_read(file) for file in with_files]
        last: Array = np.empty(0, np.uint64)
        while any(len(head) for head in heads):
            limit = min(head[-1] for head in heads if len(head))
            taken = []
            for place, head in enumerate(heads):
                cut = int(np.searchsorted(head, limit, side="right"))
                taken.append(head[:cut])
                rest = head[cut:]
                heads[place] = rest if len(rest) else _read(with_files[place])
            # A stable sort finds the ascending stretches and only merges them.
            block = _distinct(np.sort(np.concatenate(taken), kind="stable"), last)
            if len(block):
                last = block[-1:]
                yield block
    finally:
        for file in with_files:
            file.close()


def _read(file: object) -> Array:
    return np.fromfile(file, np.uint64, _BLOCK)  # type: ignore[call-overload,no-any-return]


def _distinct(ascending: Array, last: Array) -> Array:
    """Ascending keys without repeats, and without `last`, the key given out before them."""
    if len(ascending) == 0:
        return ascending
    fresh = np.empty(len(ascending), bool)
    fresh[0] = len(last) == 0 or ascending[0] != last[0]
    np.not_equal(ascending[1:], ascending[:-1], out=fresh[1:])
    return ascending if fresh.all() else ascending[fresh]
