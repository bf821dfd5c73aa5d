"""Numbers for 64-bit hashes, hundreds of thousands at a time."""

from __future__ import annotations

import numpy as np

from medcoder.kg.columns import Array

ABSENT = -1
_BLOCK = 1 << 14  # hashes looked up at a time: temporary arrays stay in the cache
_LEVELS = 3


class HashTable:
    """Distinct hashes, numbered by their place in the array they came in.

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
        found = np.empty(len(hashes), np.int32)
        for start in range(0, len(hashes), _BLOCK):
            found[start : start + _BLOCK] = self._find(hashes[start : start + _BLOCK])
        return found

    def _find(self, hashes: Array) -> Array:
        found = np.full(len(hashes), ABSENT, np.int32)
        if not self._levels:
            return found
        open_: Array | slice = slice(None)  # places in `hashes` still without an answer
        for shift, mask, slots in self._levels:
            wanted = hashes[open_]
            number = slots[wanted >> shift & mask]
            taken = number != ABSENT
            hit = taken & (self._hashes[number] == wanted)
            found[open_] = np.where(hit, number, ABSENT)
            places = np.flatnonzero(taken & ~hit)
            if len(places) == 0:
                return found
            open_ = places if isinstance(open_, slice) else open_[places]
        wanted = hashes[open_]
        place = np.searchsorted(self._rest_hashes, wanted)
        place[place == len(self._rest)] = 0
        if len(self._rest):
            hit = self._rest_hashes[place] == wanted
            found[open_] = np.where(hit, self._rest[place], ABSENT)
        return found
