"""Vectors by key in a file that may be larger than memory.

The file is read through once, and of each entry only a hash and its place are kept: 20 bytes. A
vector is read, from where it lies, when somebody asks for it.
"""

from __future__ import annotations

import mmap
from array import array
from functools import cached_property
from pathlib import Path

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.base import Floats
from medcoder.evaluate.card import sha256
from medcoder.evaluate.embeddings.layouts import entries, key_at, layout, numbers_at, row_of


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
        place = int(np.searchsorted(self._hashes, hashed))
        while place < len(self) and self._hashes[place] == hashed:
            number = int(self._order[place])
            if self._key(number) == wanted:  # other keys may have the same hash
                return number
            place += 1
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
