"""Teachers: encoders whose similarities the student keeps close to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.errors import UsageError

Array = npt.NDArray[Any]
Encode = Callable[[Sequence[str]], Array]  # texts -> vectors (n, d), by torch, ONNX or anything


class Teacher:
    """Similarities of terms by one teacher, for the languages it knows.

    It is live, and then gets the text of each term, or has a vector for every term.
    """

    def __init__(
        self,
        *,
        weight: float,
        speaks: Array,
        vectors: Array | None = None,
        encode: Encode | None = None,
        text: Callable[[int], str] | None = None,
    ) -> None:
        """`speaks` (terms,) says for which terms it is asked; `vectors` (terms, d) any scale."""
        if (vectors is None) == (encode is None or text is None):
            raise UsageError("a teacher has either vectors or a way to encode texts")
        if vectors is not None and len(vectors) != len(speaks):
            raise UsageError(
                f"a teacher has {len(vectors):,} vectors for {len(speaks):,} terms: they were made "
                "from another graph or other extra terms"
            )
        self._weight, self._speaks = weight, speaks
        self._vectors, self._encode, self._text = vectors, encode, text

    def judge(self, terms: Array) -> tuple[Array, Array, float]:
        """Cosines (n, n) of the terms, the pairs that it speaks for, and its weight."""
        known = self._speaks[terms]
        similarity = np.zeros((len(terms), len(terms)), np.float32)
        if known.any():
            units = self._units(terms[known])
            similarity[np.ix_(known, known)] = units @ units.T
        return similarity, known[:, None] & known, self._weight

    def _units(self, terms: Array) -> Array:
        if self._vectors is not None:
            vectors = np.asarray(self._vectors[terms], np.float32)
        else:
            assert self._encode is not None and self._text is not None
            distinct, place = np.unique(terms, return_inverse=True)
            texts = [self._text(int(term)) for term in distinct]
            vectors = np.asarray(self._encode(texts), np.float32)[place]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Array = vectors / np.maximum(norms, 1e-12)
        return units
