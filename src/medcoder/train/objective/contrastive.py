"""The two losses of the paper: terms of one concept, and triplets of the graph."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from medcoder.model import RELATIONS
from medcoder.model.losses import LOSSES
from medcoder.train.config import LossConfig
from medcoder.train.objective import Embeddings, Labels, Own, Sources, Term


class Synonyms(Term):
    """L_MS: terms of one concept are near each other, and far from those of others."""

    column: ClassVar[str] = "term"

    def __init__(self, sources: Sources) -> None:
        self._loss = sources.config.loss

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        return loss_of(self._loss, embeddings.similarity, batch.positive, batch.negative)


class Relations(Term):
    """L_MS_rel: a head, moved by its relation, is near its tails. [relation] has its settings."""

    column: ClassVar[str] = "relation"

    def __init__(self, sources: Sources) -> None:
        config = sources.config
        self._loss, self._k = config.relation.loss, config.sampler.k
        self._form = RELATIONS.load(config.relation.form)()

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        if batch.rows is None or batch.related is None:
            return embeddings.vectors.new_zeros(())
        heads = embeddings.vectors[:, : self._k]
        tails = embeddings.vectors[:, self._k : 2 * self._k]
        scores = self._form.similarity(batch.rows, heads, tails)  # (a, k, k)
        return loss_of(self._loss, scores, batch.related, ~batch.related)


def loss_of(config: LossConfig, similarity: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """The loss over the anchors of all steps, each of which sees the items of its own step."""
    flat = (matrix.flatten(0, 1) for matrix in (similarity, positive, negative))
    value: Tensor = LOSSES.load(config.kind)(*flat, **config.options)
    return value
