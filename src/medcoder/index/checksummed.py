"""Index files of faiss that are read only if they are what was written.

faiss trusts what it reads: a flipped bit may end the process. A digest tells damage; what a
stranger wrote has a digest that fits, so the numbers that faiss would follow are checked as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import faiss
import numpy as np

from medcoder.errors import ArtefactError

_LIMITED = Lock()  # faiss has one limit for all that it reads
_BLOCK = 1 << 20  # bytes that faiss hands over at a time
_DIGEST = 16  # bytes, after those of faiss, which reads no further than its own


def write_checksummed(index: Any, path: Path) -> None:
    """Write an index, and after it the digest of the file.

    Through a file of ours: faiss does not tell if there is no room for the end of one of its own.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST)
    with path.open("wb") as file:

        def write(block: bytes) -> None:
            digest.update(block)
            file.write(block)

        faiss.write_index(index, faiss.PyCallbackIOWriter(write, _BLOCK))
        file.write(digest.digest())


def read_checksummed(path: Path, kind: bytes) -> Any:
    """Read an index that `write_checksummed` wrote; `kind` is how faiss begins such a file."""
    try:
        with path.open("rb") as file:
            size = max(path.stat().st_size - _DIGEST, 0)
            whole = file.read(len(kind)) == kind
            file.seek(0)
            whole = whole and _digest(file, size) == file.read()
        if whole:
            with _no_longer_than(size):
                return faiss.read_index(os.fspath(path))
    except (OSError, RuntimeError, MemoryError) as error:
        raise ArtefactError(
            "it cannot be read", where=path, values=error, remedy="Copy or build the index again"
        ) from error
    raise ArtefactError(
        "it is cut off or damaged", where=path, remedy="Copy or build the index again"
    )


@contextlib.contextmanager
def _no_longer_than(size: int) -> Iterator[None]:
    """Refuse arrays that are longer than their file, before there is memory for them."""
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):  # before faiss 1.14
        yield
        return
    with _LIMITED:
        before = faiss.get_deserialization_vector_byte_limit()
        faiss.set_deserialization_vector_byte_limit(size + 1)
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(before)


def check_fits(path: Path, index: Any, *, rows: int, width: int) -> None:
    """An index must be of the vectors at hand."""
    if (index.ntotal, index.d) != (rows, width):
        raise ArtefactError(
            f"it is of {index.ntotal:,} vectors of {index.d} numbers, not of these {rows:,} "
            f"of {width}",
            where=path,
            remedy="Build the index again",
        )


def check_walk(path: Path, index: Any, *, rows: int, width: int) -> None:
    """Whether the links of an HNSW index lead to its own rows, and all of them are stored."""
    graph, stored = index.hnsw, faiss.downcast_index(index.storage)
    levels, firsts, links, each = (
        faiss.vector_to_array(vector).astype(np.int64)
        for vector in (graph.levels, graph.offsets, graph.neighbors, graph.cum_nneighbor_per_level)
    )
    sound = (
        (index.ntotal, index.d, stored.ntotal, stored.d) == (rows, width, rows, width)
        and stored.codes.size() == rows * stored.code_size
        and len(levels) == rows
        and len(firsts) == rows + 1
        and levels.min(initial=1) > 0
        and levels.max(initial=1) < len(each)
        and np.array_equal(np.diff(firsts), each[levels])
        and firsts[0] == 0
        and firsts[-1] == len(links)
        and links.min(initial=-1) >= -1
        and links.max(initial=-1) < rows
        and (rows == 0 or 0 <= graph.entry_point < rows)
        and (rows == 0 or graph.max_level == levels[graph.entry_point] - 1)
        and _reach(firsts, links, each, levels)
    )
    if not sound:
        raise unfit(path)


def _reach(firsts: Any, links: Any, each: Any, levels: Any) -> bool:
    """Whether links of the upper levels lead to rows that have those levels."""
    for level in range(1, int(levels.max(initial=1))):
        rows = np.flatnonzero(levels > level)
        spans = firsts[rows, None] + np.arange(each[level], each[level + 1])
        near = links[spans]
        if (levels[near[near >= 0]] <= level).any():
            return False
    return True


def unfit(path: Path) -> ArtefactError:
    return ArtefactError(
        "its parts do not fit together", where=path, remedy="Copy or build the index again"
    )


def check_bytes(path: Path, quantizer: Any, *, width: int) -> None:
    """Whether numbers are bytes of the same scale: what the kinds of index here write."""
    trained = faiss.vector_to_array(quantizer.trained)
    sizes = (quantizer.qtype, quantizer.d, quantizer.code_size, len(trained))
    if sizes != (faiss.ScalarQuantizer.QT_8bit_uniform, width, width, 2):
        raise unfit(path)
    if not np.isfinite(trained).all():
        raise unfit(path)


def slack_of(quantizer: Any) -> float:
    """How much a cosine may change when all numbers are bytes of the same scale."""
    _, span = faiss.vector_to_array(quantizer.trained)
    # Numbers are off by up to half a step, evenly; five times the deviation of their sum.
    return float(5 * span / 255 / 12**0.5)


def _digest(file: Any, size: int) -> bytes:
    """Of the next `size` bytes."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    while size and (block := file.read(min(size, 1 << 20))):
        digest.update(block)
        size -= len(block)
    return digest.digest()
