"""Which strings of a graph get a vector: each distinct one once, in the order of its first term."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medcoder.arrays import raw_strings
from medcoder.kg import KG
from medcoder.kg.keys import hash_strings
from medcoder.types import CONCEPT_FLAGS
from medcoder.vectors import NO_ROW

_EXTENSION = 1 << CONCEPT_FLAGS.index("extension")


class Plan(NamedTuple):
    """Row of each term (-1: none), and of each row the first term and the hash of its text."""

    term_row: npt.NDArray[np.int32]
    first_term: npt.NDArray[np.int32]
    hashes: npt.NDArray[np.uint64]


def make_plan(kg: KG) -> Plan:
    """Extensions get no vector: they say what their parent says, and which encounter it is.

    Strings are told apart by 64-bit hashes. Among the 15 million of UMLS, the chance that any two
    share one is below 1 in 100,000.
    """
    hashes = np.empty(len(kg.terms), np.uint64)
    wanted = np.empty(len(kg.terms), np.bool_)
    place = 0
    for concepts, texts in kg.terms.blocks():
        stop = place + len(texts)
        hashes[place:stop] = text_hashes(texts)
        wanted[place:stop] = kg.flags[concepts] & _EXTENSION == 0
        place = stop
    terms = np.flatnonzero(wanted).astype(np.int32)
    _, first, inverse = np.unique(hashes[terms], return_index=True, return_inverse=True)
    order = np.argsort(first)  # rows in the order of their first terms
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    term_row = np.full(len(wanted), NO_ROW, np.int32)
    term_row[terms] = rank[inverse]
    first_term = terms[first[order]]
    return Plan(term_row, first_term, hashes[first_term])


def row_texts(kg: KG, first_term: npt.NDArray[np.int32]) -> Iterator[tuple[int, list[str]]]:
    """Texts of all rows in order: the number of the first of each block, and the block."""
    place = row = 0
    for _, texts in kg.terms.blocks():
        stop = place + len(texts)
        last = int(np.searchsorted(first_term, stop))
        if last > row:
            yield row, texts.take(pa.array(first_term[row:last] - place)).to_pylist()
        place, row = stop, last


def text_hashes(texts: pa.LargeStringArray) -> npt.NDArray[np.uint64]:
    """Hashes of the texts as they are, by case too."""
    found: npt.NDArray[np.uint64] = hash_strings(*raw_strings(texts))
    return found
