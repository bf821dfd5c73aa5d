"""The loss of a step: L_MS + mu L_MS_rel, and whatever teachers add. Several steps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import normalize

from medcoder.model.losses import LOSSES
from medcoder.model.losses.multi_similarity import mine
from medcoder.model.relation import RELATIONS
from medcoder.train.config import LossConfig, TrainConfig

# What a step reports: losses, and hard pairs per anchor of the term-term loss.
NAMES = ("loss", "term", "relation", "teachers", "positives", "negatives")


class Objective:
    """Pure: embeddings and labels in, the scalars to minimise and what to report out."""

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._k = config.sampler.k
        self._form = RELATIONS.load(config.relation.form)()

    def __call__(
        self,
        embeddings: Tensor,
        concepts: Tensor,
        rows: Tensor | None = None,
        related: Tensor | None = None,
        teachers: Sequence[tuple[Tensor, Tensor, float]] = (),
    ) -> tuple[Tensor, Tensor]:
        """The mean loss of a steps, and the vector of NAMES, means too.

        Args:
            embeddings: (a, n, l), not normalised: k heads, k tails, then synonym pairs.
            concepts: (a, n) numbers of concepts; equal ones are synonyms.
            rows: (a * g, ...) relation parameters of the groups, or None without relations.
            related: (a, k, k) boolean: whether tail j is a true tail for head i and its relation.
            teachers: for each its unit vectors (a, n, d), for which (a, n) it speaks, a weight.
        """
        config = self._config
        units = normalize(embeddings, dim=2)
        similarity = units @ units.transpose(1, 2)  # (a, n, n)
        same = concepts[:, :, None] == concepts[:, None, :]
        itself = torch.eye(same.shape[1], dtype=torch.bool, device=same.device)
        positive, negative = same & ~itself, ~same
        term = _loss(config.loss, similarity, positive, negative)
        relation = distilled = torch.zeros_like(term)
        if rows is not None and related is not None:
            heads, tails = embeddings[:, : self._k], embeddings[:, self._k : 2 * self._k]
            scores = self._form.similarity(rows, heads, tails)  # (a, k, k)
            relation = _loss(config.relation.loss, scores, related, ~related)
        for vectors, known, weight in teachers:
            target = vectors @ vectors.transpose(1, 2)  # (a, n, n)
            speaks = known[:, :, None] & known[:, None, :]
            # The mean of (S_student - S_teacher)^2 over the pairs that the teacher speaks for.
            squares = ((similarity - target).square() * speaks).sum((1, 2))
            distilled = distilled + weight * (squares / speaks.sum((1, 2)).clamp(min=1)).mean()
        total = term + config.relation.mu * relation + distilled
        with torch.no_grad():
            masks = (mask.flatten(0, 1) for mask in (similarity, positive, negative))
            kept = mine(*masks, eps=config.loss.eps)
            counts = [mask.sum() / len(mask) for mask in kept]
            report = torch.stack([total, term, relation, distilled, *counts])
        return total, report


def _loss(config: LossConfig, similarity: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """The loss over the anchors of all steps, each of which sees the items of its own step."""
    loss = LOSSES.load(config.kind)
    options: dict[str, Any] = {"temperature": config.temperature}
    if config.kind == "multi_similarity":
        options = {name: getattr(config, name) for name in ("alpha", "beta", "lam", "eps")}
    flat = (matrix.flatten(0, 1) for matrix in (similarity, positive, negative))
    value: Tensor = loss(*flat, **options)
    return value


def gather(embeddings: Tensor) -> Tensor:
    """Embeddings (a, n / processes, l) of all processes, by rank, with gradients to each."""
    if not (dist.is_available() and dist.is_initialized()):
        return embeddings
    return torch.cat(list(all_gather(embeddings.contiguous())), 1)  # type: ignore[no-untyped-call]
