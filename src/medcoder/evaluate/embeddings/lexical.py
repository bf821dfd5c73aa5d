"""Spellings alone: what one would use without any model.

| space | rows |
|---|---|
| tfidf | character 3-grams within words, lower case, TF-IDF fitted on the dictionary |
| exact | 1 at the folded string, so that a cosine is 1 for the same string and 0 for others |

Both are fitted on `corpus`; without one, on the texts of the call. A text of which nothing is in
the corpus has no vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from medcoder.evaluate.results import Kind, Vectors
from medcoder.registry import Registry
from medcoder.text import fold

Space = Callable[[Sequence[str]], csr_array]  # texts to rows, once fitted
SPACES = Registry(
    "lexical space",
    {
        "tfidf": "medcoder.evaluate.embeddings.lexical:fit_tfidf",
        "exact": "medcoder.evaluate.embeddings.lexical:fit_exact",
    },
)
_NAMES = {"tfidf": "char-3-gram TF-IDF", "exact": "exact match"}
_ABOUT: dict[str, dict[str, Any]] = {
    "tfidf": {"analyzer": "char_wb", "ngram_range": [3, 3], "lowercase": True},
    "exact": {"folded": True},
}


class LexicalEmbedding:
    """A space that is fitted anew on every corpus, and kept while the corpus stays the same."""

    kind: Kind = "lexical"

    def __init__(self, space: str, *, name: str) -> None:
        self._fit = SPACES.load(space)
        self._space = space
        self._corpus: list[str] | None = None
        self._rows: Space | None = None
        self.name = name

    @property
    def fingerprint(self) -> str:
        return f"lexical {self._space} 1"

    @property
    def settings(self) -> dict[str, Any]:
        return {"space": self._space, **_ABOUT[self._space]}

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        wanted = list(texts if corpus is None else corpus)
        if self._rows is None or wanted != self._corpus:
            self._rows, self._corpus = self._fit(wanted), wanted
        rows = self._rows(texts)
        return Vectors(rows, np.diff(rows.indptr) > 0)


def fit_tfidf(corpus: Sequence[str]) -> Space:
    """Rows of length 1."""
    about = _ABOUT["tfidf"]
    model = TfidfVectorizer(
        analyzer=about["analyzer"],
        ngram_range=tuple(about["ngram_range"]),
        lowercase=about["lowercase"],
        dtype=np.float32,
    )
    fitted = any(text.strip() for text in corpus)  # an error comes of nothing to fit
    width = len(model.fit(corpus).vocabulary_) if fitted else 1

    def rows(texts: Sequence[str]) -> csr_array:
        if not fitted or len(texts) == 0:  # and of nothing to transform
            return csr_array((len(texts), width), dtype=np.float32)
        return csr_array(model.transform(texts))

    return rows


def fit_exact(corpus: Sequence[str]) -> Space:
    """A column for each folded string of the corpus."""
    columns = {text: column for column, text in enumerate(dict.fromkeys(map(fold, corpus)))}

    def rows(texts: Sequence[str]) -> csr_array:
        numbers = [columns.get(fold(text), -1) for text in texts]
        filled = [column for column in numbers if column >= 0]
        starts = np.cumsum([0, *(column >= 0 for column in numbers)])
        shape = (len(texts), max(len(columns), 1))
        return csr_array((np.ones(len(filled), np.float32), filled, starts), shape=shape)

    return rows


def load(target: str, *, name: str | None = None, threads: int | None = None) -> LexicalEmbedding:
    """`tfidf` or `exact`."""
    return LexicalEmbedding(target, name=name or _NAMES.get(target, target))
