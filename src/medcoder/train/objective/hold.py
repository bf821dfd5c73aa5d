"""Embeddings of chosen texts are held near given vectors, such as those they had before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from torch import Tensor
from torch.nn.functional import cosine_similarity

from medcoder.errors import UsageError
from medcoder.text import language_tag
from medcoder.train.extra import read_texts, read_vectors, spoken
from medcoder.train.objective import (
    Array,
    Drawn,
    Embeddings,
    Labels,
    Own,
    Sources,
    Term,
    mean_by_step,
)
from medcoder.train.sampler import Batch

_BLOCK = 1 << 16  # texts tokenised at a time


class Hold(Term):
    """The mean of 1 - cos(embedding, target).

    Held are texts of a table, some of which every step draws and encodes without dropout, or else
    the terms of the step themselves.
    """

    dropout = False

    def __init__(
        self,
        sources: Sources,
        *,
        vectors: str,
        texts: str = "",
        count: Annotated[int, "at least 0"] = 0,
        pooling: Literal["", "cls", "mean"] = "",
        languages: tuple[str, ...] = (),
    ) -> None:
        """
        Args:
            vectors: .npy with a vector for each row of `texts`; without that, for each term of
                the graph and then each extra term.
            texts: .csv or .tsv with the column text, and maybe share: how often it is drawn.
            count: texts of it that a step draws.
            pooling: of these texts; that of the model if empty.
            languages: without `texts`: terms of these alone are held; none: all.
        """
        if bool(texts) != bool(count) or (pooling and not texts) or (languages and texts):
            raise UsageError(
                "texts and count go together, pooling with them, and languages without them"
            )
        encoder, kg = sources.encoder, sources.kg
        assert encoder is not None and kg is not None
        self.pooling = pooling or None
        self._count = count
        if texts:
            held, shares = read_texts(Path(texts))
            self._ends = np.cumsum(shares)
            blocks = (held[start : start + _BLOCK] for start in range(0, len(held), _BLOCK))
            self._tokens = [
                np.array(ids, np.int32) for block in blocks for ids in encoder.tokenize(block)
            ]
            rows = len(held)
        else:
            tags = [language_tag(code) for code in languages]
            self._known = spoken(kg, sources.extra, tags)
            rows = len(self._known)
        self._vectors = read_vectors(Path(vectors), rows)
        if self._vectors.shape[1] != encoder.width:
            raise UsageError(
                "the vectors are not as wide as those of the model",
                where=vectors,
                values=f"width {self._vectors.shape[1]}, the model has {encoder.width}",
            )

    def draw(self, batch: Batch, rng: np.random.Generator) -> Drawn:
        if not self._count:
            return Drawn({"target": self._targets(batch.terms), "known": self._known[batch.terms]})
        draws = rng.random(self._count) * self._ends[-1]
        chosen = np.searchsorted(self._ends, draws, "right").clip(max=len(self._ends) - 1)
        tokens = [self._tokens[number] for number in chosen]
        lengths = np.array([len(ids) for ids in tokens], np.int64)
        known = np.ones(self._count, bool)
        arrays = {"target": self._targets(chosen), "known": known}
        return Drawn(arrays, (np.concatenate(tokens), lengths))

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        vectors = embeddings.vectors if own.embeddings is None else own.embeddings
        target = own.arrays["target"].to(vectors.dtype)
        return mean_by_step(1 - cosine_similarity(vectors, target, dim=2), own.arrays["known"])

    def _targets(self, rows: Array) -> Array:
        return np.asarray(self._vectors[rows], np.float32)

    def __str__(self) -> str:
        return f"{len(self._vectors)} vectors, width {self._vectors.shape[1]}"
