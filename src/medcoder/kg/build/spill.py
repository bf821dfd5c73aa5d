"""What does not fit in memory goes through the disk: rows, grouped by concept, and sorted keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from medcoder.arrays import Array

_BLOCK = 1 << 20  # keys of each run held while merging: 8 MB

# Rows grouped by the number of their concept; labels are numbers by `Names`.
TERM_ROWS = {
    "concept": pl.UInt32,
    "term": pl.String,
    "language": pl.UInt16,
    "source": pl.UInt16,
    "code": pl.String,
    "kind": pl.UInt16,
    "rank": pl.Int32,
    "ordinal": pl.UInt8,  # of the source, up to 15
}
XREF_ROWS = {name: TERM_ROWS[name] for name in ("concept", "source", "code", "kind")}


class Spill:
    """Frames parked on disk in the order in which they came."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self.rows = 0
        self.bytes = 0
        self.in_order = True  # whether "concept" never fell so far
        self._last: Any = None

    def write(self, frame: pl.DataFrame) -> None:
        if frame.is_empty():
            return
        if self.in_order:
            concept = frame["concept"]
            follows = self._last is None or self._last <= concept[0]
            self.in_order = bool(follows and concept.is_sorted())
            self._last = concept[-1]
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self._path), table.schema)
        self._writer.write_table(table)
        self.rows += table.num_rows
        self.bytes += table.nbytes

    def read(self) -> Iterator[pl.DataFrame]:
        """The frames again; as often as wanted until `remove`."""
        if self._writer is None:
            return
        self._writer.close()
        with pa.OSFile(str(self._path), "rb") as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                frame = pl.from_arrow(batch, rechunk=False)
                assert isinstance(frame, pl.DataFrame)
                yield frame

    def remove(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._path.unlink()
            self._writer = None


class Grouped:
    """Frames grouped by ranges of concepts, each range small enough to sort in memory.

    Rows that come in the order of their concepts, as most releases have them, are passed on as
    they come. The others are first parked again, one file a range.
    """

    def __init__(
        self,
        folder: Path,
        schema: dict[str, Any],
        frames: Iterable[pl.DataFrame],
        *,
        concepts: int,
        size: int,
        memory: int,
        in_order: bool,
    ) -> None:
        """`size` is about how many bytes come in `frames`, `memory` how many a range may have.

        `frames` have the number of the concept in the column "concept".
        """
        columns = [pl.col(name).cast(kind) for name, kind in schema.items()]
        self._frames = (frame.select(columns) for frame in frames)
        self._folder = folder
        self._empty = pl.DataFrame(schema=schema)
        self._concepts = concepts
        self._memory = memory
        self._ranges = min(max(1, -(-size // max(memory, 1))), 256, max(concepts, 1))
        self._in_order = in_order or self._ranges == 1

    def ranges(self) -> Iterator[tuple[int, int, pl.DataFrame]]:
        """First and last (exclusive) concept of each range, and its rows, in order."""
        return self._passed_on() if self._in_order else self._parked()

    def _passed_on(self) -> Iterator[tuple[int, int, pl.DataFrame]]:
        held, low, size = [self._empty], 0, 0
        for frame in self._frames:
            if frame.is_empty():  # all of absent concepts
                continue
            held.append(frame)
            size += int(frame.estimated_size())
            if size < self._memory or self._ranges == 1:
                continue
            rows = pl.concat(held)
            last = int(rows["concept"][-1])  # more of its rows may come
            if last > low:
                yield low, last, rows.filter(pl.col("concept") < last)
                rows = rows.filter(pl.col("concept") == last)
                low = last
            held, size = [rows], 0
        yield low, self._concepts, pl.concat(held)

    def _parked(self) -> Iterator[tuple[int, int, pl.DataFrame]]:
        borders = np.linspace(0, self._concepts, self._ranges + 1).astype(np.int64)
        parts = [
            Spill(self._folder / f"{position}.range.arrow") for position in range(self._ranges)
        ]
        for frame in self._frames:
            part = np.searchsorted(borders[1:-1], frame["concept"].to_numpy(), side="right")
            for position in range(int(part.min(initial=0)), int(part.max(initial=0)) + 1):
                parts[position].write(frame.filter(pl.Series(part == position)))
        for position, spill in enumerate(parts):
            frame = pl.concat([self._empty, *spill.read()])
            spill.remove()
            yield int(borders[position]), int(borders[position + 1]), frame


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
            for position, head in enumerate(heads):
                cut = int(np.searchsorted(head, limit, side="right"))
                taken.append(head[:cut])
                rest = head[cut:]
                heads[position] = rest if len(rest) else _read(with_files[position])
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
