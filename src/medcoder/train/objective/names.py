"""Terms find the names of their concepts among those of all concepts, which do not move."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from medcoder.errors import UsageError
from medcoder.text import language_tag
from medcoder.train.extra import read_extra, read_vectors, spoken
from medcoder.train.objective import Drawn, Embeddings, Labels, Own, Sources, Term, mean_by_step
from medcoder.train.sampler import Batch


class Names(Term):
    """InfoNCE of a term against given vectors of the names of all concepts.

    With s_j the similarity to name j over the temperature, and the names N of the term's concept:

        log sum over all of exp(s_j)
      - (1 - each) log sum over N of exp(s_j)
      - each * mean over N of s_j

    The first part lets a term choose a name, the second draws it to the middle of them.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        table: str,
        vectors: str,
        temperature: Annotated[float, "above 0"] = 0.05,
        each: Annotated[float, "at least 0"] = 0.5,
        languages: tuple[str, ...] = (),
    ) -> None:
        """
        Args:
            table: .csv or .tsv with the columns term and concept, a row for each name.
            vectors: .npy with a vector for each row of the table.
            each: share of the second part.
            languages: terms of these alone are asked; none: all.
        """
        kg, encoder = sources.kg, sources.encoder
        assert kg is not None and encoder is not None
        if each > 1:
            raise UsageError(f"each is {each}: it must be from 0 to 1")
        names = read_extra(Path(table), kg)
        given = read_vectors(Path(vectors), len(names.texts))
        if given.shape[1] != encoder.width:
            raise UsageError(
                "the vectors are not as wide as those of the model",
                where=vectors,
                values=f"width {given.shape[1]}, the model has {encoder.width}",
            )
        owners = np.array(names.concepts, np.int64)
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=len(kg))
        self._temperature, self._each = temperature, each
        self._named = counts > 0
        self._asked = spoken(kg, sources.extra, [language_tag(code) for code in languages])
        self._most = int(counts.max(initial=1))
        device = next(encoder.parameters()).device
        units = torch.from_numpy(np.asarray(given, np.float32)[order]).to(device)
        self._units = normalize(units, dim=1)  # (names, l), by concept
        self._first = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])).to(device)
        self._text = f"{len(owners)} names, width {given.shape[1]}"

    def draw(self, batch: Batch, rng: np.random.Generator) -> Drawn:
        return Drawn({"asked": self._asked[batch.terms] & self._named[batch.concepts]})

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        units = embeddings.units
        scores = units @ self._units.to(units.dtype).T / self._temperature  # (a, n, names)
        begin, end = self._first[batch.concepts], self._first[batch.concepts + 1]
        index = begin[:, :, None] + torch.arange(self._most, device=begin.device)
        mine = index < end[:, :, None]  # (a, n, most)
        hits = scores.gather(2, index.clamp(max=len(self._units) - 1))
        asked = own.arrays["asked"]
        # Concepts without a name are not asked; a number in place of -inf keeps gradients finite.
        lowest = torch.finfo(hits.dtype).min
        any_name = hits.masked_fill(~mine, lowest).logsumexp(2)
        each_name = (hits * mine).sum(2) / mine.sum(2).clamp(min=1)
        losses = scores.logsumexp(2) - (1 - self._each) * any_name - self._each * each_name
        return mean_by_step(losses.masked_fill(~asked, 0.0), asked)

    def __str__(self) -> str:
        return self._text
