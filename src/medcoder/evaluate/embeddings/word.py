"""Word vectors: a term is the mean of the vectors of its words.

A word is a run of letters and digits, with apostrophes and hyphens inside it. It is looked up as
it is written, then in lower case, with a capital, in capitals; a word with a hyphen or apostrophe
that is found in none of these is looked up in its parts. Words that are not found do not count in
the mean; a term without any that is found has no vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.evaluate.base import Kind, Mask, Vectors
from medcoder.evaluate.embeddings.bags import Bags, gather, means, unit
from medcoder.evaluate.embeddings.vectorfile import VectorFile

_WORD = re.compile(r"[^\W_]+(?:['’\-‐‑][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_RULE = "mean of words 1"  # to be changed with what is said above


class WordEmbedding:
    """word2vec, text or binary, or GloVe."""

    kind: Kind = "word"

    def __init__(self, file: VectorFile, *, name: str) -> None:
        self.file = file
        self.name = name
        self._found: dict[str, int] = {}

    @property
    def fingerprint(self) -> str:
        return f"{_RULE} {self.file.fingerprint}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "pooling": "mean of words",
            "dimension": self.file.dimension,
            "vocabulary": len(self.file),
            "form": self.file.form,
        }

    def words(self, text: str) -> list[tuple[str, int]]:
        """The words of a term, and the entry of each in the file, -1 for none."""
        found = []
        for word in _WORD.findall(text):
            entry = self._entry(word)
            if entry < 0:
                found += [(part, self._entry(part)) for part in _PART.findall(word)]
            else:
                found.append((word, entry))
        return found

    def missing(self, texts: Sequence[str]) -> Mask:
        """Of each word of the texts whether it is not found; repeated ones count again."""
        return np.array([entry < 0 for text in texts for _, entry in self.words(text)], np.bool_)

    def out_of_vocabulary(self, texts: Sequence[str]) -> float:
        """The share of all words of the texts that are not found."""
        missing = self.missing(texts)
        return float(missing.mean()) if len(missing) else 0.0

    def bags(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Bags:
        """The words of each term that are found."""
        return gather(
            self.file,
            ([entry for _, entry in self.words(text) if entry >= 0] for text in texts),
        )

    def raw(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Vectors:
        """Means of any length."""
        bags = self.bags(texts)
        return Vectors(means(bags), bags.sizes > 0)

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        rows, known = self.raw(texts)
        return Vectors(unit(rows), known)

    def _entry(self, word: str) -> int:
        if word not in self._found:
            forms = dict.fromkeys((word, word.lower(), word.capitalize(), word.upper()))
            entries = (self.file.find(form) for form in forms)
            self._found[word] = next((entry for entry in entries if entry >= 0), -1)
        return self._found[word]


def load(target: str, *, name: str | None = None, threads: int | None = None) -> WordEmbedding:
    """A file of word vectors; its form is found out."""
    return WordEmbedding(VectorFile(target), name=name or Path(target).name)
