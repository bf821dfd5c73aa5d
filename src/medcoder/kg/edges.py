"""The edges of a graph: one sorted 64-bit key each, head, relation and tail in its bits."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.kg.columns import Array, open_array


class Triples(NamedTuple):
    """Edges as arrays of numbers: concepts by `KG.indices`, relations by `KG.relations`."""

    head: npt.NDArray[np.int32]
    relation: npt.NDArray[np.int32]
    tail: npt.NDArray[np.int32]


class Edges:
    """Memory-mapped edges, ascending by head, then relation, then tail."""

    def __init__(self, folder: Path, *, concept_bits: int, relation_bits: int) -> None:
        self.keys = open_array(folder, "edge", "uint64")
        self._first_in = open_array(folder, "concept.in", "int64")  # (concepts + 1,)
        self._in = open_array(folder, "edge.in", "uint32")  # numbers of edges, by tail
        self._tail_bits = np.uint64(concept_bits)
        self._head_shift = np.uint64(concept_bits + relation_bits)
        self._tail_mask = np.uint64((1 << concept_bits) - 1)
        self._relation_mask = np.uint64((1 << relation_bits) - 1)

    def __len__(self) -> int:
        return len(self.keys)

    def triples(self, keys: Array) -> Triples:
        return Triples(
            (keys >> self._head_shift).astype(np.int32),
            (keys >> self._tail_bits & self._relation_mask).astype(np.int32),
            (keys & self._tail_mask).astype(np.int32),
        )

    def outgoing(self, concept: int) -> Array:
        """Keys of the edges that start at the concept."""
        least = np.uint64(concept) << self._head_shift
        most = least | (np.uint64(1) << self._head_shift) - np.uint64(1)
        low = np.searchsorted(self.keys, least)
        return self.keys[low : np.searchsorted(self.keys, most, side="right")]

    def incoming(self, concept: int) -> Array:
        """Keys of the edges that end at the concept."""
        return self.keys[self._in[self._first_in[concept] : self._first_in[concept + 1]]]

    def contains(self, head: Array, relation: Array, tail: Array) -> npt.NDArray[np.bool_]:
        """Whether each triplet of numbers is an edge; the arrays are broadcast."""
        wanted = (
            head.astype(np.uint64) << self._head_shift
            | relation.astype(np.uint64) << self._tail_bits
            | tail.astype(np.uint64)
        )
        flat = wanted.ravel()
        found = np.zeros(len(flat), bool)
        if len(self.keys) == 0:
            return found.reshape(wanted.shape)
        if len(flat) > 1 and (flat[1:] < flat[:-1]).any():
            # In ascending order, neighbouring questions share the pages and cache lines they read.
            order = np.argsort(flat)
            found[order] = self._has(flat[order])
        else:
            found = self._has(flat)
        return found.reshape(wanted.shape)

    def _has(self, ascending: Array) -> npt.NDArray[np.bool_]:
        place = np.searchsorted(self.keys, ascending)
        place[place == len(self.keys)] = 0
        found: npt.NDArray[np.bool_] = self.keys[place] == ascending
        return found
