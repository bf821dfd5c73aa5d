"""Numbers for concept ids, millions at a time."""

from __future__ import annotations

import numpy as np
import polars as pl

from medcoder.errors import InputError, MedcoderError
from medcoder.kg.build.hashtable import HashTable
from medcoder.kg.columns import Array

_WAITING = 4_000_000  # ids collected before they are made distinct


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
                f"the concept id {broken[0]!r} has a line break",
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
