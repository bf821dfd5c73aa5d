"""Nearest neighbours among the rows of `Vectors`, by the same contract whatever the engine.

Scores are cosines computed from the stored rows. A filter is a mask over the rows. If it keeps
few of them, they are searched exactly, so that it never loses a row that a search of all gives.
"""

from __future__ import annotations

from pathlib import Path

from medcoder.errors import UsageError
from medcoder.index.exact import Mask, Neighbours, RowIndex
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
_EXACT_UP_TO = 30_000  # rows that a query reads in some 5 ms


def choose(rows: int) -> str:
    """The kind that suits a number of rows."""
    return "exact" if rows <= _EXACT_UP_TO else "ivf"


def build_index(kind: str, vectors: Vectors, folder: Path) -> None:
    """Write what an index of this kind needs into `folder`."""
    if len(vectors) == 0:
        raise UsageError(
            "no vectors to search", where=vectors.path, remedy="Embed a graph that has terms"
        )
    INDEXES.load(kind).build(vectors, folder)


def open_index(kind: str, vectors: Vectors, folder: Path) -> RowIndex:
    """Open an index that `build_index` wrote."""
    index: RowIndex = INDEXES.load(kind)(vectors, folder)
    return index


__all__ = ["INDEXES", "Mask", "Neighbours", "RowIndex", "build_index", "choose", "open_index"]
