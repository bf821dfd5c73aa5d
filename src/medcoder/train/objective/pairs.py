"""Texts of a table find their partners among those of the step: sentences with their English."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from medcoder.errors import UsageError
from medcoder.model.losses.info_nce import info_nce
from medcoder.text import fold
from medcoder.train.extra import read_pairs, read_vectors
from medcoder.train.objective import Drawn, Embeddings, Labels, Own, Sources, Term
from medcoder.train.sampler import Batch
from medcoder.train.tokens import tokenize_texts


class Pairs(Term):
    """InfoNCE of drawn texts and their partners, and how far partners are from each other.

    With given vectors of the partners, these do not move: a text is asked against all of the step,
    as in the distillation of Reimers and Gurevych (2020, arXiv:2004.09813). Without, partners are
    encoded, too, and each text of either side is asked against all others.

    Texts that the table has as a pair, in any order, or that are equal but for case, accents and
    punctuation, are never negatives of each other.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        table: str,
        count: Annotated[int, "at least 2"],
        vectors: str = "",
        temperature: Annotated[float, "above 0"] = 0.05,
        near: Annotated[float, "at least 0"] = 0.0,
    ) -> None:
        """
        Args:
            table: .csv or .tsv with the columns text and other, and maybe share: how often the
                pair is drawn.
            count: pairs that a step draws.
            vectors: .npy with a vector of `other` for each row of the table.
            near: weight of the mean of 1 - cos(text, other).
        """
        encoder = sources.encoder
        assert encoder is not None
        self._count, self._temperature, self._near = count, temperature, near
        texts, others, shares = read_pairs(Path(table))
        self._ends = np.cumsum(shares)
        self._vectors = read_vectors(Path(vectors), len(texts)) if vectors else None
        if self._vectors is not None and self._vectors.shape[1] != encoder.width:
            raise UsageError(
                "the vectors are not as wide as those of the model",
                where=vectors,
                values=f"width {self._vectors.shape[1]}, the model has {encoder.width}",
            )
        numbers: dict[str, int] = {}
        folded: dict[str, int] = {}
        self._ids = np.array(
            [[numbers.setdefault(text, len(numbers)) for text in side] for side in (texts, others)]
        ).T  # (pairs, 2)
        keys = [folded.setdefault(fold(text), len(folded)) for text in numbers]
        self._keys = np.array(keys, np.int64)[self._ids]  # (pairs, 2)
        self._tokens = tokenize_texts(encoder, list(numbers))
        self._many = len(folded)
        both = np.concatenate([self._keys, self._keys[:, ::-1]])
        device = next(encoder.parameters()).device
        known = np.unique(both[:, 0] * self._many + both[:, 1])
        self._known = torch.from_numpy(known).to(device)

    def draw(self, batch: Batch, rng: np.random.Generator) -> Drawn:
        draws = rng.random(self._count) * self._ends[-1]
        rows = np.searchsorted(self._ends, draws, "right").clip(max=len(self._ends) - 1)
        arrays = {"keys": self._keys[rows].T.copy()}  # (2, count)
        sides = self._ids[rows].T
        if self._vectors is not None:
            arrays["target"] = np.asarray(self._vectors[rows], np.float32)
            sides = sides[:1]
        tokens = [self._tokens[number] for number in sides.ravel()]
        lengths = np.array([len(ids) for ids in tokens], np.int64)
        return Drawn(arrays, (np.concatenate(tokens), lengths))

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        assert own.embeddings is not None
        units = normalize(own.embeddings, dim=2)  # (a, count or 2 count, l)
        texts, others = own.arrays["keys"].unbind(1)  # (a, count)
        first = units[:, : self._count]
        if self._vectors is not None:
            second = items = normalize(own.arrays["target"].to(units.dtype), dim=2)
            anchors, asked, among = first, texts, others
            partners = torch.eye(self._count, dtype=torch.bool, device=units.device)
        else:
            second = units[:, self._count :]
            anchors = items = units
            asked = among = torch.cat([texts, others], 1)  # (a, 2 count)
            place = torch.arange(2 * self._count, device=units.device)
            partners = (place[:, None] - place).abs() == self._count
        negative = ~self._alike(asked, among) & ~partners
        losses = [
            info_nce(one @ other.T, partners, free, temperature=self._temperature)
            for one, other, free in zip(anchors, items, negative, strict=True)
        ]
        apart = 1 - (first * second).sum(2).mean()
        return torch.stack(losses).mean() + self._near * apart

    def _alike(self, asked: Tensor, among: Tensor) -> Tensor:
        """Which are equal, or a pair of the table: (a, anchors, items)."""
        keys = asked[:, :, None] * self._many + among[:, None, :]
        place = torch.searchsorted(self._known, keys).clamp(max=len(self._known) - 1)
        return (self._known[place] == keys) | (asked[:, :, None] == among[:, None, :])

    def __str__(self) -> str:
        return f"{len(self._ends)} pairs"
