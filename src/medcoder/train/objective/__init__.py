"""The loss of a step: a sum of weighted terms. Several steps side by side.

By the settings of the paper it is L_MS + mu L_MS_rel (the terms synonyms and relations). Teachers
add theirs, and the table [objective] of the settings any other of `OBJECTIVE_TERMS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import normalize

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.model import RELATIONS
from medcoder.model.encoder import Pooling, TransformerEncoder
from medcoder.model.losses import LOSSES
from medcoder.model.losses.multi_similarity import mine
from medcoder.train import OBJECTIVE_TERMS
from medcoder.train.config import LossConfig, TrainConfig, Weight
from medcoder.train.extra import Extra
from medcoder.train.sampler import Batch

if TYPE_CHECKING:
    from medcoder.train.objective.teacher import Teacher

Array = npt.NDArray[Any]
# What every step reports: losses, and hard pairs per anchor of the term-term loss. Terms beside
# those of the paper and teachers follow by name.
NAMES = ("loss", "term", "relation", "teachers", "positives", "negatives")


@dataclass(frozen=True)
class Sources:
    """What terms can be made from."""

    config: TrainConfig
    kg: KG | None = None
    encoder: TransformerEncoder | None = None
    teachers: Sequence[Teacher] = ()
    extra: Extra = field(default_factory=Extra)


@dataclass(frozen=True)
class Drawn:
    """What a term wants of one step, still on the host."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    # Texts of its own to encode: ids end to end, and how many each has.
    texts: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class Own:
    """What a term drew for a steps, on the device."""

    arrays: Mapping[str, Tensor] = field(default_factory=dict)  # (a, ...)
    embeddings: Tensor | None = None  # (a, texts, l) of its own texts, not normalised


@dataclass(frozen=True)
class Labels:
    """What is known of the terms of a steps."""

    concepts: Tensor  # (a, n) numbers of concepts; equal ones are synonyms
    rows: Tensor | None = None  # (a * g, ...) relation parameters of the groups
    # (a, k, k) boolean: whether tail j is a true tail for head i and its relation.
    related: Tensor | None = None

    @cached_property
    def positive(self) -> Tensor:
        itself = torch.eye(self.concepts.shape[1], dtype=torch.bool, device=self.concepts.device)
        return self._same & ~itself

    @cached_property
    def negative(self) -> Tensor:
        return ~self._same

    @cached_property
    def _same(self) -> Tensor:
        return self.concepts[:, :, None] == self.concepts[:, None, :]  # (a, n, n)


@dataclass(frozen=True)
class Embeddings:
    """Of the terms of a steps: k heads, k tails, then synonym pairs."""

    vectors: Tensor  # (a, n, l), not normalised

    @cached_property
    def units(self) -> Tensor:
        return normalize(self.vectors, dim=2)

    @cached_property
    def similarity(self) -> Tensor:
        return self.units @ self.units.transpose(1, 2)  # (a, n, n)


class Term:
    """A part of the loss. Made from `Sources` and its options, keyword-only."""

    column: ClassVar[str] = ""  # in the metrics; its name in the settings if empty
    pooling: Pooling | None = None  # of its own texts; that of the encoder if None
    dropout: bool = True  # whether its own texts are encoded with dropout

    def __init__(self, sources: Sources) -> None:
        """Terms that need nothing have nothing to do here."""

    def draw(self, batch: Batch, rng: np.random.Generator) -> Drawn:
        """What it wants of a step: the same for the same seed and step."""
        return Drawn()

    def begin(self, step: int, memory: dict[str, Tensor]) -> None:
        """Called before each update. What is put into `memory` is part of a checkpoint."""

    def __call__(self, batch: Labels, embeddings: Embeddings, own: Own) -> Tensor:
        """The mean over the steps of what each would give alone."""
        raise NotImplementedError

    def __str__(self) -> str:
        """What must be the same when a run is resumed."""
        return type(self).__name__


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


class Objective:
    """Terms and their weights: embeddings and labels in, a scalar and what to report out."""

    def __init__(self, sources: Sources) -> None:
        self.config = sources.config
        self.terms: dict[str, Term] = {}
        self.weights = _usual(sources)
        for name in self.weights:
            self.terms[name] = OBJECTIVE_TERMS.load(name)(sources)
        for name, wanted in sources.config.objective.items():
            if name not in self.terms and name in _NEEDS:
                raise UsageError(f"objective.{name} needs {_NEEDS[name]}")
            if wanted.kind != name and (name in _NEEDS or wanted.kind in _NEEDS):
                raise UsageError(
                    "a term of the paper has its own name and no other kind",
                    where=f"objective.{name}",
                    values=f"kind = {wanted.kind!r}",
                    remedy=f"Name the table [objective.{wanted.kind}], or take another name",
                )
            if name not in self.terms:
                made = OBJECTIVE_TERMS.load(wanted.kind)
                self.terms[name] = made(sources, **wanted.options)
            self.weights[name] = wanted.weight
        self.columns = {name: term.column or name for name, term in self.terms.items()}
        self.names = (*NAMES, *(name for name in self.columns.values() if name not in NAMES))
        self.memory: dict[str, dict[str, Tensor]] = {name: {} for name in self.terms}

    def active(self, step: int) -> dict[str, float]:
        """The terms with a weight at this step; others are not computed."""
        weights = {name: weight.at(step) for name, weight in self.weights.items()}
        return {name: weight for name, weight in weights.items() if weight > 0}

    def begin(self, update: int) -> None:
        """Let the terms see the model as it is before the update that begins at this step."""
        for name in self.active(update):
            self.terms[name].begin(update, self.memory[name])

    def draw(self, batch: Batch, seed: int, step: int, *, update: int) -> dict[str, Drawn]:
        """What the terms want of a step of the update that begins at step `update`."""
        return {
            name: term.draw(batch, np.random.default_rng((seed, step, number)))
            for number, (name, term) in enumerate(self.terms.items())
            if name in self.active(update)
        }

    def __call__(
        self,
        batch: Labels,
        vectors: Tensor,
        own: Mapping[str, Own] | None = None,
        *,
        update: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """The mean loss of a steps, and the vector of `names`, means too.

        Args:
            vectors: (a, n, l), not normalised: k heads, k tails, then synonym pairs.
            own: by name of a term, what it drew.
            update: the step at which the update begins: weights do not change within one.
        """
        embeddings = Embeddings(vectors)
        reported = dict.fromkeys(self.names, vectors.new_zeros(()))
        total: Tensor | None = None
        for name, weight in self.active(update).items():
            loss = self.terms[name](batch, embeddings, (own or {}).get(name, Own()))
            reported[self.columns[name]] = loss
            total = weight * loss if total is None else total + weight * loss
        if total is None:  # nothing has a weight just now
            total = 0.0 * vectors.sum()
        with torch.no_grad():
            masks = (embeddings.similarity, batch.positive, batch.negative)
            eps = self.config.loss.options.get("eps", 0.1)
            kept = mine(*(mask.flatten(0, 1) for mask in masks), eps=eps)
            reported["positives"], reported["negatives"] = (mask.sum() / len(mask) for mask in kept)
            reported["loss"] = total
            report = torch.stack([reported[name] for name in self.names])
        return total, report

    def __str__(self) -> str:
        """The terms that the table [objective] added."""
        added = [name for name in self.config.objective if name not in _NEEDS]
        return ", ".join(f"{name}: {self.terms[name]}" for name in added)


# Terms that other settings ask for; [objective] changes their weights alone.
_NEEDS = {
    "synonyms": "nothing",
    "relations": "relation.mu above 0",
    "teacher": "a teacher: name one with --teacher",
}


def _usual(sources: Sources) -> dict[str, Weight]:
    weights = {"synonyms": Weight(1.0)}
    if sources.config.relation.mu > 0:
        weights["relations"] = Weight(sources.config.relation.mu)
    if sources.teachers:
        weights["teacher"] = Weight(1.0)
    return weights


def mean_by_step(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean over the steps of the means of what is chosen (a, n); of nothing it is zero."""
    return ((values * chosen).sum(1) / chosen.sum(1).clamp(min=1)).mean()


def gather(embeddings: Tensor) -> Tensor:
    """Embeddings (a, n / processes, l) of all processes, by rank, with gradients to each."""
    if not (dist.is_available() and dist.is_initialized()):
        return embeddings
    return torch.cat(list(all_gather(embeddings.contiguous())), 1)  # type: ignore[no-untyped-call]
