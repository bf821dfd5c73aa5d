"""Terms find the names of their concepts among those of all concepts, which stay for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from medcoder.errors import UsageError
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.packed import Packed, pack
from medcoder.text import language_tag
from medcoder.train.extra import read_extra, read_vectors, spoken
from medcoder.train.objective import Drawn, Embeddings, Labels, Own, Sources, Term, mean_by_step
from medcoder.train.sampler import Batch
from medcoder.train.tokens import tokenize_texts

_BLOCK = 1 << 15  # names encoded at a time


class Names(Term):
    """InfoNCE of a term against vectors of the names of all concepts, through which none learns.

    The vectors are given, or those that the model itself has every `refresh` steps.

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
        vectors: str = "",
        refresh: Annotated[int, "at least 0"] = 0,
        temperature: Annotated[float, "above 0"] = 0.05,
        each: Annotated[float, "at least 0"] = 0.5,
        languages: tuple[str, ...] = (),
        most: Annotated[int, "at least 0"] = 0,
    ) -> None:
        """
        Args:
            table: .csv or .tsv with the columns term and concept, a row for each name.
            vectors: .npy with a vector for each row of the table.
            refresh: without vectors: steps after which the model makes them again.
            each: share of the second part.
            languages: terms of these alone are asked; none: all.
            most: terms of a step that are asked, drawn among these; 0: all.
        """
        kg, encoder = sources.kg, sources.encoder
        assert kg is not None and encoder is not None
        if each > 1:
            raise UsageError(f"each is {each}: it must be from 0 to 1")
        if bool(vectors) == bool(refresh):
            raise UsageError("either vectors or refresh is given")
        names = read_extra(Path(table), kg)
        given = read_vectors(Path(vectors), len(names.texts)) if vectors else None
        if given is not None and given.shape[1] != encoder.width:
            raise UsageError(
                "the vectors are not as wide as those of the model",
                where=vectors,
                values=f"width {given.shape[1]}, the model has {encoder.width}",
            )
        owners = np.array(names.concepts, np.int64)
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=len(kg))
        self._temperature, self._each, self._count = temperature, each, most
        self._named = counts > 0
        self._asked = spoken(kg, sources.extra, [language_tag(code) for code in languages])
        self._most = int(counts.max(initial=1))
        device = next(encoder.parameters()).device
        self._units = torch.empty(0)  # (names, l), by concept
        self._refresh, self._encoder = refresh, encoder
        self._bf16 = sources.config.bf16 and device.type == "cuda"
        if given is not None:
            units = torch.from_numpy(np.asarray(given, np.float32)[order]).to(device)
            self._units = normalize(units, dim=1)
        else:
            self._packed = _pack(encoder, [names.texts[number] for number in order])
        self._first = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])).to(device)
        kind = f"width {encoder.width}" if vectors else f"again every {refresh} steps"
        self._text = f"{len(owners)} names, {kind}"

    def begin(self, step: int, memory: dict[str, Tensor]) -> None:
        if not self._refresh:
            return
        if "step" not in memory or int(memory["step"]) // self._refresh < step // self._refresh:
            memory["units"], memory["step"] = self._encode(), torch.tensor(step)
        self._units = memory["units"]

    @torch.no_grad()
    def _encode(self) -> Tensor:
        """Unit vectors (names, l) by the model as it is."""
        training = self._encoder.training
        self._encoder.eval()
        units = torch.empty(int(self._first[-1]), self._encoder.width, device=self._first.device)
        for rows, packed in self._packed:
            with torch.autocast(self._first.device.type, torch.bfloat16, enabled=self._bf16):
                vectors = self._encoder(packed)
            units[rows] = normalize(vectors.float(), dim=1)
        self._encoder.train(training)
        return units

    def draw(self, batch: Batch, rng: np.random.Generator) -> Drawn:
        asked = self._asked[batch.terms] & self._named[batch.concepts]
        if not self._count:
            return Drawn({"asked": asked})
        # Those that are asked come first, in no order.
        places = np.argsort(rng.random(len(asked)) - asked, kind="stable")[: self._count]
        return Drawn({"asked": asked[places], "places": places})

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        units, concepts = embeddings.units, batch.concepts
        if "places" in own.arrays:
            places = own.arrays["places"]  # (a, most)
            concepts = concepts.gather(1, places)
            units = units.gather(1, places[:, :, None].expand(-1, -1, units.shape[2]))
        scores = units @ self._units.to(units.dtype).T / self._temperature  # (a, n, names)
        begin, end = self._first[concepts], self._first[concepts + 1]
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


def _pack(encoder: TransformerEncoder, texts: list[str]) -> list[tuple[Tensor, Packed]]:
    """Numbers of names and their tokens, in blocks of names of about the same length."""
    device = next(encoder.parameters()).device
    tokens = tokenize_texts(encoder, texts)
    lengths = np.array([len(ids) for ids in tokens], np.int64)
    order = np.argsort(lengths, kind="stable")
    found = []
    for start in range(0, len(order), _BLOCK):
        rows = order[start : start + _BLOCK]
        flat = np.concatenate([tokens[row] for row in rows])
        found.append((torch.from_numpy(rows).to(device), pack(flat, lengths[rows], device=device)))
    return found
