"""Nearest neighbours among the rows of `Vectors`, by one contract whatever the engine.

Scores are cosines computed from the stored rows. A filter is a mask over the rows; one that keeps
few of them is searched exactly, so that it never loses what the whole would have found.
"""

from __future__ import annotations

from pathlib import Path

from medcoder.errors import UsageError
from medcoder.index.scan import Found, Mask, RowIndex
from medcoder.registry import Registry
from medcoder.vectors import Vectors

INDEXES = Registry(
    "index",
    {
        "exact": "medcoder.index.exact:ExactIndex",
        "ivf": "medcoder.index.ivf:IvfIndex",
        "hnsw": "medcoder.index.hnsw:HnswIndex",
    },
)
_EXACT_UP_TO = 30_000  # rows that one query reads in some 5 ms


def choose(rows: int) -> str:
    """The kind that suits a number of rows."""
    return "exact" if rows <= _EXACT_UP_TO else "ivf"


def build_index(kind: str, vectors: Vectors, folder: Path) -> None:
    """Write what an index of this kind needs into `folder`."""
    if len(vectors) == 0:
        raise UsageError(f"{vectors.path} has no vectors to search. Embed a graph that has terms")
    INDEXES.load(kind).build(vectors, folder)


def open_index(kind: str, vectors: Vectors, folder: Path) -> RowIndex:
    """Open an index that `build_index` wrote."""
    index: RowIndex = INDEXES.load(kind)(vectors, folder)
    return index


__all__ = ["INDEXES", "Found", "Mask", "RowIndex", "build_index", "choose", "open_index"]
