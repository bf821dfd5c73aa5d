"""Similarity: do cosines rank pairs of terms as people do?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.base import Context, Embedding, Figure, Linker, Result, Vectors
from medcoder.evaluate.card import read_table
from medcoder.evaluate.linking import distinct_texts, embed
from medcoder.evaluate.metrics import Reals, spearman
from medcoder.evaluate.tasks.base import Task, figure, word_figures

COLUMNS = ("term1", "term2", "score")


class Pair(NamedTuple):
    """Two terms, their ids if known, and how alike people find them."""

    left: str
    right: str
    score: float
    left_id: str
    right_id: str


@dataclass(frozen=True)
class Similarity(Task):
    """Spearman's correlation of cosines with the judgement of people.

    Pairs with a term that has no vector are left out, and coverage says how many are in.
    """

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        assert not isinstance(system, Linker)
        [file] = self.files(data, context)
        return Result(pair_figures("all", read_pairs(file), system, context))


def pair_figures(
    split: str, pairs: Sequence[Pair], system: Embedding, context: Context
) -> list[Figure]:
    """The correlation, where at least two pairs have vectors, and words that have none."""
    keyed = system.kind == "concept"
    keys = [(pair.left, pair.left_id) for pair in pairs]
    keys += [(pair.right, pair.right_id) for pair in pairs]
    _, places = distinct_texts([key[1] if keyed else key[0] for key in keys])
    chosen = [keys[first] for first in np.unique(places, return_index=True)[1]]
    texts = [text for text, _ in chosen]
    vectors = embed(
        system,
        texts,
        ids=[one for _, one in chosen] if keyed else None,
        corpus=texts,
        progress=context.progress,
    )
    left, right = places[: len(pairs)], places[len(pairs) :]
    known = vectors.known[left] & vectors.known[right]
    words = list(word_figures(system, [key[0] for key in keys], context, split=split))
    if known.sum() < 2:
        return words
    estimate = spearman(
        _cosines(vectors, left[known], right[known]),
        np.array([pair.score for pair in pairs])[known],
        resamples=context.resamples,
        seed=context.seed,
    )
    found = figure(split, "spearman", estimate, int(known.sum()), coverage=float(known.mean()))
    return [found, *words]


def _cosines(vectors: Vectors, left: Any, right: Any) -> Reals:
    product = vectors.rows[left] * vectors.rows[right]
    return np.asarray(product.sum(axis=1), dtype=np.float64).ravel()


def read_pairs(file: Path) -> list[Pair]:
    rows = read_table(file, COLUMNS, optional=("id1", "id2"))
    return [
        Pair(left, right, _number(file, row, score), left_id, right_id)
        for row, (left, right, score, left_id, right_id) in enumerate(rows, 2)
    ]


def _number(file: Path, row: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"the score {text!r} is not a number",
            file=file,
            row=row,
            remedy="Write it with a point, as in 6.69",
        ) from None
