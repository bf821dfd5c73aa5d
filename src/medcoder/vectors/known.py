"""Vectors by the hash of their text: those of another graph, or a small bundled file.

The file keeps 12 bits of each number: a byte, and four more bits that bring the cosines to within
0.0002 of float32. It is the size of int8 and a half, and needs no second look at query time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from medcoder.errors import ArtefactError
from medcoder.vectors import Vectors

_LEVELS = 2047
Rows = Callable[[npt.NDArray[np.intp]], npt.NDArray[np.float16]]


class Known:
    """Vectors that can be looked up by the hash of a text."""

    def __init__(
        self, path: Path, encoder: str, hashes: npt.NDArray[np.uint64], rows: Rows
    ) -> None:
        self.path = path
        self.encoder = encoder
        self._order = np.argsort(hashes)
        self._hashes = hashes[self._order]
        self._rows = rows

    def find(
        self, hashes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float16]]:
        """Positions of the hashes that are known, and their vectors."""
        if len(self._hashes) == 0:
            return np.empty(0, np.intp), self._rows(np.empty(0, np.intp))
        nearest = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        positions = np.flatnonzero(self._hashes[nearest] == hashes)
        return positions, self._rows(self._order[nearest[positions]])


def known_vectors(vectors: Vectors) -> Known:
    """Those of another directory of vectors."""
    return Known(vectors.path, vectors.encoder, vectors.hashes, lambda rows: vectors.rows[rows])


def save_seed(vectors: Vectors, file: Path, *, known: Sequence[Known] = ()) -> None:
    """Write the rows of `vectors` to a small file, but those that are known already."""
    fresh = np.ones(len(vectors.hashes), np.bool_)
    for seed in known:
        fresh[seed.find(vectors.hashes)[0]] = False
    rows = vectors.rows[fresh].astype(np.float32)
    scales = np.maximum(np.abs(rows).max(1, initial=0), 1e-12) / _LEVELS
    whole = np.rint(rows / scales[:, None]).astype(np.int16)  # 11 bits and a sign
    high, low = whole >> 4, (whole & 15).astype(np.uint8)
    stored = {
        "hash": np.ascontiguousarray(vectors.hashes[fresh]),
        "scale": scales.astype(np.float32),
        "high": high.astype(np.int8),
        "low": low[:, ::2].copy(),
    }
    stored["low"][:, : vectors.width // 2] |= low[:, 1::2] << 4  # the last of an odd width is alone
    file.write_bytes(save(stored, metadata={"encoder": vectors.encoder}))


def open_seed(file: Path) -> Known:
    """Open what `save_seed` wrote."""
    try:
        with safe_open(file, framework="numpy") as stored:
            encoder: str = stored.metadata()["encoder"]
            hashes, scale, high, low = map(stored.get_tensor, ("hash", "scale", "high", "low"))
        if not len(hashes) == len(scale) == len(high) == len(low):
            raise ValueError("it has columns of different lengths")
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ArtefactError(
            "it cannot be read", where=file, values=error, remedy="Install medcoder again"
        ) from error

    def rows(numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.float16]:
        whole = high[numbers].astype(np.int16) << 4
        whole[:, ::2] |= low[numbers] & 15
        whole[:, 1::2] |= low[numbers, : whole.shape[1] // 2] >> 4
        restored: npt.NDArray[np.float16] = (whole * scale[numbers, None]).astype(np.float16)
        return restored

    return Known(file, encoder, hashes, rows)
