"""Relation triplets: from parked or streamed rows to sorted 64-bit keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from medcoder.arrays import Array, ArrayWriter
from medcoder.errors import InputError, MedcoderError
from medcoder.kg.build.numbering import ABSENT, ConceptIds, Names
from medcoder.kg.build.spill import SortedRuns
from medcoder.kg.build.terms import Offsets, count_ascending
from medcoder.types import Count


class Edges:
    """Collect edges between known concepts; count the others by reason."""

    def __init__(
        self, ids: ConceptIds, merged: Array | None, *, bits: int, keys: SortedRuns, count: Count
    ) -> None:
        self._ids = ids
        self._merged = merged  # (ids,) number of each id's concept; None: they are the same
        self._bits = bits
        self.relation_bits = relation_bits(bits)
        self.relations = Names("relation labels", 1 << self.relation_bits)
        self._keys = keys
        self._count = count
        self.examples: dict[str, tuple[str, str, str]] = {}  # the first edge left out, by reason

    def add(self, frame: pl.DataFrame) -> None:
        """Rows of (head, relation, tail) ids."""
        head, tail = self._ids.lookup(frame["head"]), self._ids.lookup(frame["tail"])
        label = frame["relation"]
        known = (head != ABSENT) & (tail != ABSENT)
        if self._merged is not None:
            head, tail = self._merged[head], self._merged[tail]  # ABSENT picks any: masked below
        loop = known & (head == tail)
        good = known & ~loop
        self._count.read += len(good)
        for reason, rows in (("absent concept", ~known), ("concept to itself", loop)):
            left = int(np.count_nonzero(rows))
            self._count.drop(reason, left)
            if left and reason not in self.examples:
                self.examples[reason] = frame.row(int(np.argmax(rows)))
        if not good.all():
            head, label, tail = head[good], label.filter(pl.Series(good)), tail[good]
        relation = self.relations.encode(label).to_numpy()  # of edges in the graph only
        self._keys.add(
            head.astype(np.uint64) << np.uint64(self._bits + self.relation_bits)
            | relation.astype(np.uint64) << np.uint64(self._bits)
            | tail.astype(np.uint64)
        )

    def check_strict(self) -> None:
        """Raise an error for the first edge left out."""
        for reason, (head, relation, tail) in self.examples.items():
            rows = self._count.left_out[reason]
            raise InputError(
                f"{rows:,} relations were left out ({reason}), the first",
                values=f"{head} {relation} {tail}",
                remedy="Build without --strict to leave them out, or mend the release",
            )


def relation_bits(bits: int) -> int:
    """Bits of a key left for the relation when a concept's number takes `bits`."""
    left = min(16, 64 - 2 * bits)
    if left < 8:
        raise MedcoderError("too many concepts", values=f"{1 << (bits - 1):,} or more")
    return left


def write_edges(
    folder: Path,
    keys: SortedRuns,
    reverse: SortedRuns,
    *,
    concepts: int,
    bits: int,
    relations: int,
    relation_bits: int,
    count: Count,
) -> Iterator[Array]:
    """Write keys and the edges by tail; gives the counts by relation, block by block."""
    edge_bits = 64 - bits
    given = count.read - count.left_out.total()
    tail_mask, label_mask = np.uint64((1 << bits) - 1), np.uint64((1 << relation_bits) - 1)
    with ArrayWriter(folder, "edge", "uint64") as file:
        for block in keys.ascending():
            number = np.arange(file.length, file.length + len(block), dtype=np.uint64)
            file.append(block)
            reverse.add((block & tail_mask) << np.uint64(edge_bits) | number)
            label = (block >> np.uint64(bits) & label_mask).astype(np.int64)
            yield np.bincount(label, minlength=relations)
        count.kept += file.length
        count.drop("duplicate", given - file.length)
    if count.kept >= 1 << 32:
        raise MedcoderError("the format holds fewer than 2^32 edges", values=f"{count.kept:,}")
    by_tail = np.zeros(concepts, np.int64)
    with ArrayWriter(folder, "edge.in", "uint32") as file:
        for block in reverse.ascending():
            file.append((block & np.uint64((1 << edge_bits) - 1)).astype(np.uint32))
            count_ascending(by_tail, (block >> np.uint64(edge_bits)).astype(np.int64))
            yield np.zeros(relations, np.int64)
    with Offsets(folder, "concept.in") as first:
        first.append(by_tail)
