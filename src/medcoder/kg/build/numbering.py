"""Numbers for concept ids and labels, hundreds of thousands at a time."""

from __future__ import annotations

import numpy as np
import polars as pl

from medcoder.arrays import Array
from medcoder.errors import InputError, MedcoderError

ABSENT = -1
_BLOCK = 1 << 14  # hashes looked up at a time: temporary arrays stay in the cache
_LEVELS = 3
_WAITING = 4_000_000  # ids collected before they are made distinct


class HashTable:
    """Distinct hashes, numbered by their position in the array they came in.

    Each level has two to four slots for every hash that is still without one, chosen by other bits
    of it than the level before. What is left after the last level is found by bisection.
    """

    def __init__(self, hashes: Array) -> None:
        self._hashes = hashes
        self._levels: list[tuple[np.uint64, np.uint64, Array]] = []
        left = np.arange(len(hashes), dtype=np.int32)
        shift = 64
        for _ in range(_LEVELS):
            bits = max(len(left).bit_length() + 1, 4)
            shift -= bits
            if shift < 0 or len(left) == 0:
                break
            mask = np.uint64((1 << bits) - 1)
            slot = hashes[left] >> np.uint64(shift) & mask
            slots = np.full(1 << bits, ABSENT, np.int32)
            slots[slot] = left
            self._levels.append((np.uint64(shift), mask, slots))
            left = left[slots[slot] != left]
        self._rest = left[np.argsort(hashes[left])]
        self._rest_hashes = hashes[self._rest]

    def find(self, hashes: Array) -> Array:
        """The number of each hash, ABSENT where there is none."""
        numbers = np.empty(len(hashes), np.int32)
        for start in range(0, len(hashes), _BLOCK):
            numbers[start : start + _BLOCK] = self._find(hashes[start : start + _BLOCK])
        return numbers

    def _find(self, hashes: Array) -> Array:
        numbers = np.full(len(hashes), ABSENT, np.int32)
        if not self._levels:
            return numbers
        open_: Array | slice = slice(None)  # positions in `hashes` still without an answer
        for shift, mask, slots in self._levels:
            wanted = hashes[open_]
            number = slots[wanted >> shift & mask]
            taken = number != ABSENT
            hit = taken & (self._hashes[number] == wanted)
            numbers[open_] = np.where(hit, number, ABSENT)
            left = np.flatnonzero(taken & ~hit)
            if len(left) == 0:
                return numbers
            open_ = left if isinstance(open_, slice) else open_[left]
        wanted = hashes[open_]
        position = np.searchsorted(self._rest_hashes, wanted)
        position[position == len(self._rest)] = 0
        if len(self._rest):
            hit = self._rest_hashes[position] == wanted
            numbers[open_] = np.where(hit, self._rest[position], ABSENT)
        return numbers


class ConceptIds:
    """Collect ids while reading; then number them in ascending order and look them up."""

    def __init__(self) -> None:
        self._seen: list[pl.DataFrame] = []
        self._waiting = 0
        self.ids = pl.Series("concept", [], pl.String)
        self.ordinal: Array = np.empty(0, np.uint16)  # which source had the id first

    def add(self, ids: pl.Series, ordinal: int) -> None:
        # Through Arrow and back, so that a few ids do not keep the whole block in memory.
        fresh = pl.Series("concept", ids.unique().to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._seen.append(fresh.to_frame().with_columns(ordinal=pl.lit(ordinal, pl.UInt16)))
        self._waiting += len(fresh)
        if self._waiting > _WAITING:
            self._compact()

    def finish(self) -> None:
        """Number the ids. After this, `lookup` works and `add` does not."""
        self._compact()
        if self._seen:
            frame = self._seen.pop().sort("concept")
            self.ids, self.ordinal = frame["concept"].rechunk(), frame["ordinal"].to_numpy()
        broken = self.ids.filter(self.ids.str.contains("\n", literal=True))
        if len(broken):
            raise InputError(
                "a concept id has a line break",
                values=repr(broken[0]),
                remedy="Check which column holds the id, and its quotes",
            )
        for seed in range(16):  # two ids with one hash: take another hash
            hashes = self.ids.hash(seed)
            if hashes.n_unique() == len(hashes):
                break
        else:
            raise MedcoderError("concept ids share their hashes under sixteen seeds")
        self._seed = seed
        self._table = HashTable(hashes.to_numpy())

    def lookup(self, ids: pl.Series) -> Array:
        """Numbers of the ids, ABSENT for those that were never added.

        An absent id passes for a present one only if their 64-bit hashes are equal.
        """
        hashes = ids.hash(self._seed).to_numpy()
        # Releases are mostly sorted by a concept: then its many rows are looked up once.
        starts = np.flatnonzero(hashes[1:] != hashes[:-1]) + 1
        if 2 * len(starts) > len(hashes):
            return self._table.find(hashes)
        starts = np.concatenate([[0], starts])[: len(hashes)]
        lengths = np.diff(starts, append=len(hashes))
        return np.repeat(self._table.find(hashes[starts]), lengths)

    def _compact(self) -> None:
        if not self._seen:
            return
        frame = pl.concat(self._seen, rechunk=False)
        self._seen = [frame.group_by("concept").agg(pl.col("ordinal").min())]
        self._waiting = 0


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
                    values=f"the last is {label[:100]!r}",
                    remedy="Check which column holds them",
                )
        return number

    def encode(self, labels: pl.Series) -> pl.Series:
        """Numbers of a column of labels."""
        hashes = labels.hash().to_numpy()
        positions = self._table.find(hashes)
        fresh = np.flatnonzero(positions == ABSENT)
        if len(fresh):
            seen = pl.DataFrame({"label": labels.gather(fresh), "hash": hashes[fresh]})
            for label, hashed in seen.unique(maintain_order=True).iter_rows():
                self._of_hash.append(self.number(label))
                self._hashes.append(hashed)
            self._table = HashTable(np.array(self._hashes, np.uint64))
            positions = self._table.find(hashes)
        numbers = np.array(self._of_hash, np.uint16)[positions]
        return pl.Series(labels.name, numbers)
