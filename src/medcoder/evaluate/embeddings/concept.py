"""Vectors of concepts, by id: cui2vec and others of its kind. Names and spellings do not count.

A concept with several ids has the mean of those that are found. Free text has no id, and so no
vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medcoder.errors import UsageError
from medcoder.evaluate.base import Kind, Vectors
from medcoder.evaluate.embeddings.bags import Bags, gather, means, unit
from medcoder.evaluate.embeddings.vectorfile import VectorFile


class ConceptEmbedding:
    """The CSV that cui2vec comes in, or lines of `id v1 v2 ...`."""

    kind: Kind = "concept"

    def __init__(self, file: VectorFile, *, name: str) -> None:
        self.file = file
        self.name = name
        self._found: dict[str, int] = {}

    @property
    def fingerprint(self) -> str:
        return f"mean of ids {self.file.fingerprint}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "pooling": "by id",
            "dimension": self.file.dimension,
            "vocabulary": len(self.file),
            "form": self.file.form,
        }

    def bags(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Bags:
        """The ids of each concept that are found."""
        given = [""] * len(texts) if ids is None else ids
        if len(given) != len(texts):
            raise UsageError(f"{len(given):,} ids of {len(texts):,} terms: there must be as many")
        bags = (
            [entry for one in joined.split("|") if (entry := self._entry(one.strip())) >= 0]
            for joined in given
        )
        return gather(self.file, bags)

    def raw(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Vectors:
        """Means of any length."""
        bags = self.bags(texts, ids=ids)
        return Vectors(means(bags), bags.sizes > 0)

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        rows, known = self.raw(texts, ids=ids)
        return Vectors(unit(rows), known)

    def _entry(self, one: str) -> int:
        if one not in self._found:
            self._found[one] = self.file.find(one) if one else -1
        return self._found[one]


def load(target: str, *, name: str | None = None, threads: int | None = None) -> ConceptEmbedding:
    """A file of vectors by id; its form is found out."""
    return ConceptEmbedding(VectorFile(target), name=name or Path(target).name)
