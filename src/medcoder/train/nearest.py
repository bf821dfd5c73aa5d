"""Exact search over preferred names by the model of the moment: a score, and hard negatives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medcoder.errors import InputError
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.text import fold
from medcoder.train.extra import Extra, read_extra
from medcoder.train.loop import Evaluate, Neighbours
from medcoder.types import Progress

_NEAR = 8  # concepts that are kept as near to each
_NAMES = 1 << 16  # names encoded at a time
_SCORES = 1 << 28  # similarities held at a time: a gigabyte


def read_queries(path: Path, kg: KG) -> Extra:
    """A table with the columns query and concept, and maybe weight, .csv or .tsv."""
    queries = read_extra(path, kg, text="query")
    if not any(queries.weights):
        raise InputError("has no queries", file=path, remedy="Add rows below the header")
    return queries


def accuracy(kg: KG, queries: Extra, doing: Progress | None = None) -> Evaluate:
    """The share of queries, by weight, whose nearest preferred name is that of their concept."""
    meant = [fold(kg.terms.preferred(concept)) for concept in queries.concepts]

    def evaluate(encoder: TransformerEncoder) -> dict[str, float]:
        names = _encode_names(kg, encoder, doing)
        asked = torch.from_numpy(encoder.encode(queries.texts)).to(names.device)
        found: list[int] = []
        rows = _rows(names)
        for start in range(0, len(asked), rows):
            found += (asked[start : start + rows] @ names.T).argmax(1).tolist()
        # By name: nobody can tell two concepts of one name apart.
        right = [
            fold(kg.terms.preferred(concept)) == name
            for concept, name in zip(found, meant, strict=True)
        ]
        return {"score": float(np.average(right, weights=queries.weights))}

    return evaluate


def hard_negatives(kg: KG, doing: Progress | None = None) -> Neighbours:
    """The concepts with the nearest preferred names, for each."""

    def neighbours(encoder: TransformerEncoder) -> npt.NDArray[np.int64]:
        names = _encode_names(kg, encoder, doing)
        count = min(_NEAR, max(len(kg) - 1, 1))
        found = np.empty((len(kg), count), np.int64)
        rows = _rows(names)
        for start in range(0, len(kg), rows):
            scores = names[start : start + rows] @ names.T  # (rows, concepts)
            scores.diagonal(start).fill_(-torch.inf)  # a concept is not near itself
            stop = start + len(scores)
            found[start:stop] = scores.topk(count).indices.cpu().numpy()
            if doing:
                doing("finding hard negatives", stop, len(kg))
        return found

    return neighbours


def _encode_names(kg: KG, encoder: TransformerEncoder, doing: Progress | None) -> Tensor:
    """Unit vectors (concepts, l) of the preferred names, on the encoder's device."""
    device = next(encoder.parameters()).device
    vectors = torch.empty(len(kg), encoder.width, device=device)
    for start in range(0, len(kg), _NAMES):
        stop = min(start + _NAMES, len(kg))
        names = [kg.terms.preferred(concept) for concept in range(start, stop)]
        vectors[start:stop] = torch.from_numpy(encoder.encode(names))
        if doing:
            doing("encoding names", stop, len(kg))
    return vectors


def _rows(names: Tensor) -> int:
    """How many rows of similarities to all names are made at a time."""
    return max(_SCORES // len(names), 1)
