"""Index files of faiss that are read only if they are what was written.

faiss trusts what it reads: a flipped bit may end the process.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import faiss

from medcoder.errors import ArtefactError

_DIGEST = 16  # bytes, after those of faiss, which reads no further than its own


def write_checksummed(index: Any, path: Path) -> None:
    """Write an index, and after it the digest of the file."""
    faiss.write_index(index, os.fspath(path))
    with path.open("rb") as file:
        digest = _digest(file, path.stat().st_size)
    with path.open("ab") as file:
        file.write(digest)


def read_checksummed(path: Path, flags: int = 0) -> Any:
    """Read an index that `write_checksummed` wrote."""
    try:
        with path.open("rb") as file:
            size = max(path.stat().st_size - _DIGEST, 0)
            whole = _digest(file, size) == file.read()
        if whole:
            return faiss.read_index(os.fspath(path), flags)
    except (OSError, RuntimeError) as error:
        raise ArtefactError(
            "it cannot be read", where=path, values=error, remedy="Copy or build the index again"
        ) from error
    raise ArtefactError(
        "it is cut off or damaged", where=path, remedy="Copy or build the index again"
    )


def check_fits(path: Path, index: Any, *, rows: int, width: int) -> None:
    """An index must be of the vectors at hand."""
    if (index.ntotal, index.d) != (rows, width):
        raise ArtefactError(
            f"it is of {index.ntotal:,} vectors of {index.d} numbers, not of these {rows:,} "
            f"of {width}",
            where=path,
            remedy="Build the index again",
        )


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
