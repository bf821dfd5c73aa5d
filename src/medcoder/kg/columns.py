"""The memory-mapped columns of a graph: its terms and its edges.

Strings: for each concept its id, then text and code of each term, a line each. One read gives all
of a concept, and no string has an offset of its own: at the size of UMLS that halves the time of a
look-up and saves two hundred megabytes.

Edges: one sorted 64-bit key each, with head, relation and tail in its bits.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medcoder.arrays import Array, open_array, open_bytes, open_rows, view

INFO = 3  # columns of `info`
LINE = "\n"  # ends each string; the build turns it into a space where a term has one


class Terms:
    """Memory-mapped ids and terms."""

    def __init__(self, folder: Path) -> None:
        self._data: mmap.mmap | bytes = open_bytes(folder, "term.data")
        # (concepts + 1, 2): number of the first term, and the first byte of the concept's lines
        bounds = open_rows(folder, "concept.terms", "int64", 2)
        self.first = bounds[:, 0]
        self.first_byte = bounds[:, 1]
        # (terms, 3): numbers of language, vocabulary and kind
        self.info = open_rows(folder, "term.info", "uint16", INFO)
        self._bounds = view(bounds.reshape(-1))
        self._info = view(self.info.reshape(-1))

    def __len__(self) -> int:
        return len(self.info)

    @property
    def size(self) -> int:
        """Bytes of all strings."""
        return len(self._data)

    def data(self, begin: int, end: int) -> bytes:
        """The lines between two bytes."""
        return self._data[begin:end]

    def of(self, concept: int) -> Iterator[tuple[str, str, int, int, int]]:
        """Text, code and the numbers of language, vocabulary and kind of each of its terms."""
        start, begin, stop, end = self._bounds[2 * concept : 2 * concept + 4].tolist()
        info = self._info[INFO * start : INFO * stop].tolist()
        lines = self._data[begin:end].decode().split(LINE)
        return zip(
            lines[1:-1:2], lines[2::2], info[::INFO], info[1::INFO], info[2::INFO], strict=True
        )

    def id(self, concept: int) -> str:
        begin = self._bounds[2 * concept + 1]
        return self._data[begin : self._data.find(b"\n", begin)].decode()

    def preferred(self, concept: int) -> str:
        """The first term."""
        return self._lines(concept)[1]

    def text(self, number: int) -> str:
        """The text of one term."""
        concept = int(np.searchsorted(self.first, number, side="right")) - 1
        return self._lines(concept)[1 + 2 * (number - int(self.first[concept]))]

    def _lines(self, concept: int) -> list[str]:
        _, begin, _, end = self._bounds[2 * concept : 2 * concept + 4].tolist()
        return self._data[begin:end].decode().split(LINE)

    def blocks(self, size: int = 1 << 18) -> Iterator[tuple[Array, pa.LargeStringArray]]:
        """All terms in order, about `size` at a time: the concept of each, and its text."""
        concepts = len(self.first) - 1
        low = 0
        while low < concepts:
            high = int(np.searchsorted(self.first, self.first[low] + size, side="right")) - 1
            high = min(max(high, low + 1), concepts)
            counts = np.diff(self.first[low : high + 1])
            yield np.repeat(np.arange(low, high), counts), self._texts(low, high)
            low = high

    def _texts(self, low: int, high: int) -> pa.LargeStringArray:
        """Texts of the terms of concepts [low, high)."""
        begin, end = int(self.first_byte[low]), int(self.first_byte[high])
        data = np.frombuffer(self._data[begin:end], np.uint8)
        terms = np.diff(self.first[low : high + 1])
        ends = np.flatnonzero(data == ord(LINE))
        # Lines of a concept: its id, then text and code in turn.
        id_lines = np.cumsum(2 * terms + 1) - (2 * terms + 1)
        within = np.arange(len(ends)) - np.repeat(id_lines, 2 * terms + 1)
        lines = np.flatnonzero(within % 2 == 1)
        begins, text_ends = ends[lines - 1] + 1, ends[lines]
        # +1 where a text begins, -1 where it ends: the running sum is 1 within texts.
        steps = np.zeros(len(data) + 1, np.int8)
        steps[begins] += 1
        steps[text_ends] -= 1
        texts = data[np.cumsum(steps[:-1], dtype=np.int8) == 1]
        offsets = np.zeros(len(lines) + 1, np.int64)
        np.cumsum(text_ends - begins, out=offsets[1:])
        return pa.LargeStringArray.from_buffers(
            len(lines), pa.py_buffer(offsets), pa.py_buffer(texts)
        )


class Triples(NamedTuple):
    """Edges as arrays of numbers: concepts by `KG.indices`, relations by `KG.relations`."""

    head: npt.NDArray[np.int32]
    relation: npt.NDArray[np.int32]
    tail: npt.NDArray[np.int32]


class Edges:
    """Memory-mapped edges, ascending by head, then relation, then tail."""

    def __init__(self, folder: Path, *, concept_bits: int, relation_bits: int) -> None:
        self.keys = open_array(folder, "edge", "uint64")
        self.first_in = open_array(folder, "concept.in", "int64")  # (concepts + 1,)
        self.into = open_array(folder, "edge.in", "uint32")  # numbers of edges, by tail
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
        return self.keys[self.into[self.first_in[concept] : self.first_in[concept + 1]]]

    def contains(self, head: Array, relation: Array, tail: Array) -> npt.NDArray[np.bool_]:
        """Whether each triplet of numbers is an edge; the arrays are broadcast."""
        wanted = (
            head.astype(np.uint64) << self._head_shift
            | relation.astype(np.uint64) << self._tail_bits
            | tail.astype(np.uint64)
        )
        flat = wanted.ravel()
        present = np.zeros(len(flat), bool)
        if len(self.keys) == 0:
            return present.reshape(wanted.shape)
        if len(flat) > 1 and (flat[1:] < flat[:-1]).any():
            # In ascending order, neighbouring questions share the pages and cache lines they read.
            order = np.argsort(flat)
            present[order] = self._has(flat[order])
        else:
            present = self._has(flat)
        return present.reshape(wanted.shape)

    def _has(self, ascending: Array) -> npt.NDArray[np.bool_]:
        position = np.searchsorted(self.keys, ascending)
        position[position == len(self.keys)] = 0
        present: npt.NDArray[np.bool_] = self.keys[position] == ascending
        return present
