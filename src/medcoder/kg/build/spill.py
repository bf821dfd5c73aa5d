"""Rows on their way from a source to the graph: parked on disk, then grouped by concept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.build.hashtable import ABSENT, HashTable

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


class Names:
    """Labels numbered in the order in which they first appear."""

    def __init__(self, what: str, limit: int = 1 << 16) -> None:
        self.labels: list[str] = []
        self._numbers: dict[str, int] = {}
        self._what = what
        self._limit = limit
        self._hashes: list[int] = []  # of labels, for `encode`
        self._of_hash: list[int] = []
        self._table = HashTable(np.empty(0, np.uint64))

    def number(self, label: str) -> int:
        number = self._numbers.setdefault(label, len(self.labels))
        if number == len(self.labels):
            self.labels.append(label)
            if number >= self._limit:
                raise InputError(
                    f"more than {self._limit:,} {self._what}, which is all that a graph can hold",
                    remedy=f"Check which column holds them: the last is {label[:100]!r}",
                )
        return number

    def encode(self, labels: pl.Series) -> pl.Series:
        """Numbers of a column of labels."""
        hashes = labels.hash().to_numpy()
        found = self._table.find(hashes)
        fresh = np.flatnonzero(found == ABSENT)
        if len(fresh):
            seen = pl.DataFrame({"label": labels.gather(fresh), "hash": hashes[fresh]})
            for label, hashed in seen.unique(maintain_order=True).iter_rows():
                self._of_hash.append(self.number(label))
                self._hashes.append(hashed)
            self._table = HashTable(np.array(self._hashes, np.uint64))
            found = self._table.find(hashes)
        numbers = np.array(self._of_hash, np.uint16)[found]
        return pl.Series(labels.name, numbers)


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
        parts = [Spill(self._folder / f"{place}.range.arrow") for place in range(self._ranges)]
        for frame in self._frames:
            part = np.searchsorted(borders[1:-1], frame["concept"].to_numpy(), side="right")
            for place in range(int(part.min(initial=0)), int(part.max(initial=0)) + 1):
                parts[place].write(frame.filter(pl.Series(part == place)))
        for place, spill in enumerate(parts):
            frame = pl.concat([self._empty, *spill.read()])
            spill.remove()
            yield int(borders[place]), int(borders[place + 1]), frame
