"""An update: its steps drawn ahead of time, forward and backward on a device, both optimisers.

The steps between two updates see the same parameters, so their terms can go through the encoder
together: the sum of their gradients is the same, and a GPU gets matrices large enough to be busy.
Their losses stay apart: a term is compared with those of its own step alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from medcoder.errors import UsageError
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.lazy_table import LazyTable
from medcoder.model.packed import pack
from medcoder.train.config import TrainConfig
from medcoder.train.objective import Drawn, Labels, Objective, Own, gather
from medcoder.train.sampler import Batch, TripletSampler
from medcoder.train.state import State
from medcoder.train.tokens import TokenStore

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Inputs:
    """What one step computes on, still on the host."""

    tokens: Array  # (t,) ids of this process's terms, end to end
    lengths: Array  # (n / processes,)
    concepts: Array  # (n,) of all processes' terms
    relations: Array  # (g,) numbers of relations
    slots: Array  # (g,) where the gradients of each relation are collected
    related: Array  # (k, k) boolean
    # By name of an objective term, what it drew; of its own texts those of this process.
    drawn: Mapping[str, Drawn] = field(default_factory=dict)
    update: int = 0  # the step at which the update begins


@dataclass(frozen=True)
class Prepared:
    """The steps of an update, ready to run."""

    start: int
    stop: int
    inputs: list[Inputs]
    touched: Array  # relations that these steps touch, slot by slot
    missed: float  # share of the "negatives" that are in fact triplets of the graph; or nan


def prepare(
    sampler: TripletSampler,
    store: TokenStore,
    config: TrainConfig,
    steps: range,
    *,
    objective: Objective | None = None,
    rank: int = 0,
    processes: int = 1,
) -> Iterator[Prepared]:
    """Inputs of `steps`, which begin at an update, update by update."""
    size = config.optimiser.accumulation
    for start in steps[::size]:
        slots: dict[int, int] = {}
        inputs = []
        missed = float("nan")
        for step in range(start, start + size):
            batch = sampler.batch(config.seed, step)
            places = [slots.setdefault(number, len(slots)) for number in batch.relations.tolist()]
            due = step % config.log_every == 0
            related, share = label(sampler, batch, config, measure=due)
            missed = share if due else missed
            part = len(batch.terms) // processes
            tokens, lengths = store.gather(batch.terms[rank * part : (rank + 1) * part])
            drawn = objective.draw(batch, config.seed, step, update=start) if objective else {}
            inputs.append(
                Inputs(
                    tokens=tokens,
                    lengths=lengths,
                    concepts=batch.concepts,
                    relations=batch.relations,
                    slots=np.array(places, np.int64),
                    related=related,
                    drawn={name: _part(each, rank, processes) for name, each in drawn.items()},
                    update=start,
                )
            )
        yield Prepared(start, start + size, inputs, np.array(list(slots), np.int64), missed)


def _part(drawn: Drawn, rank: int, processes: int) -> Drawn:
    """The same with the texts that one process encodes."""
    if drawn.texts is None or processes == 1:
        return drawn
    tokens, lengths = drawn.texts
    if len(lengths) % processes:
        raise UsageError(
            f"{processes} processes do not divide the {len(lengths)} texts that a term of the "
            "objective draws",
            remedy="Change its count",
        )
    size = len(lengths) // processes
    begin, end = (int(lengths[: number * size].sum()) for number in (rank, rank + 1))
    return Drawn(drawn.arrays, (tokens[begin:end], lengths[rank * size : (rank + 1) * size]))


def label(
    sampler: TripletSampler, batch: Batch, config: TrainConfig, *, measure: bool
) -> tuple[Array, float]:
    """Which tails are true for which heads (k, k): of equal tails, or by the graph.

    With `measure`, also which share of the pairs that equal tails call negative the graph has.
    """
    heads, tails = batch.heads, batch.tails
    if len(heads) == 0:
        return np.zeros((0, 0), bool), float("nan")
    equal = tails[:, None] == tails
    exact = config.relation.labels == "exact"
    if not exact and not measure:
        return equal, float("nan")
    relations = np.repeat(batch.relations, sampler.m)
    true = sampler.kg.contains(heads[:, None], relations[:, None], tails) | equal
    missed = float((true & ~equal).sum() / max((~equal).sum(), 1))
    return (true if exact else equal), missed


class Step:
    """Run steps; gradients gather in the encoder's parameters and in the relation table."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        table: LazyTable | torch.nn.Parameter | None,
        objective: Objective,
        *,
        accumulation: int,
        at_once: int,
        bf16: bool,
    ) -> None:
        """`accumulation` steps make an update; `at_once` of them are encoded together."""
        self._encoder, self._table, self._objective = encoder, table, objective
        self._accumulation, self._at_once, self._bf16 = accumulation, at_once, bf16
        self._device = next(encoder.parameters()).device

    def run(self, steps: Sequence[Inputs]) -> Tensor:
        """Add the gradients of the steps of an update; gives the sum of their reports."""
        total = torch.zeros(len(self._objective.names), device=self._device)
        for start in range(0, len(steps), self._at_once):
            some = steps[start : start + self._at_once]
            total += self._compute(some) * len(some)
        return total

    def _compute(self, steps: Sequence[Inputs]) -> Tensor:
        tokens = np.concatenate([step.tokens for step in steps])
        lengths = np.concatenate([step.lengths for step in steps])
        packed = pack(tokens, lengths, device=self._device)
        concepts = self._send(np.stack([step.concepts for step in steps]))  # (a, n)
        rows = related = None
        if self._table is not None:
            relations = self._send(np.concatenate([step.relations for step in steps]))
            related = self._send(np.stack([step.related for step in steps]))  # (a, k, k)
            if isinstance(self._table, LazyTable):
                rows = self._table.gather(relations)
            else:
                rows = self._table.index_select(0, relations)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16):
            embeddings = self._encoder(packed)
        embeddings = embeddings.float().unflatten(0, (len(steps), -1))  # (a, n / processes, l)
        drawn = {name: self._own(name, steps) for name in steps[0].drawn}
        labels = Labels(concepts, rows, related)
        vectors = gather(embeddings)
        loss, report = self._objective(labels, vectors, drawn, update=steps[0].update)
        torch.autograd.backward(loss * (len(steps) / self._accumulation))
        if isinstance(self._table, LazyTable) and rows is not None and rows.grad is not None:
            slots = self._send(np.concatenate([step.slots for step in steps]))
            self._table.add(slots, rows.grad)
        return report

    def _own(self, name: str, steps: Sequence[Inputs]) -> Own:
        """What a term drew, sent, with its own texts encoded."""
        drawn = [step.drawn[name] for step in steps]
        arrays = {
            key: self._send(np.stack([each.arrays[key] for each in drawn]))
            for key in drawn[0].arrays
        }
        texts = [each.texts for each in drawn if each.texts is not None]
        if not texts:
            return Own(arrays)
        term = self._objective.terms[name]
        tokens, lengths = (np.concatenate(part) for part in zip(*texts, strict=True))
        packed = pack(tokens, lengths, device=self._device)
        training = self._encoder.training
        self._encoder.train(training and term.dropout)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16):
            vectors = (
                self._encoder.pooled(packed, term.pooling)
                if term.pooling
                else self._encoder(packed)
            )
        self._encoder.train(training)
        return Own(arrays, gather(vectors.float().unflatten(0, (len(steps), -1))))

    def _send(self, array: Array) -> Tensor:
        tensor = torch.from_numpy(array)
        if self._device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)


def make_step(
    encoder: TransformerEncoder, state: State, objective: Objective, config: TrainConfig
) -> Step:
    on_gpu = next(encoder.parameters()).is_cuda
    if on_gpu and config.bf16:  # similarities are of float32 vectors that half precision made
        torch.set_float32_matmul_precision("high")
    return Step(
        encoder,
        state.table,
        objective,
        accumulation=config.optimiser.accumulation,
        # A GPU wants all steps of an update together; a CPU gains nothing and has less memory.
        at_once=config.optimiser.accumulation if on_gpu else 1,
        bf16=config.bf16 and on_gpu,
    )


def learning_rate_factor(before: int, unit: int, *, warmup: int, total: int) -> float:
    """Linear warm-up to 1, linear decay to 0, for the update after `before` units of progress.

    unit: progress that one update makes (accumulation in steps, or 1 in updates).
    """
    rise = (before + unit) / warmup if warmup else 1.0
    fall = (total - before) / (total - warmup) if total > warmup else 1.0
    return max(min(rise, fall, 1.0), 0.0)


def update(
    state: State, ready: Prepared, config: TrainConfig, processes: int
) -> tuple[float, torch.Tensor]:
    """One step of both optimisers; gives the learning rate and the norm of the gradient."""
    schedule, optimiser = config.schedule, config.optimiser
    unit = optimiser.accumulation if schedule.unit == "steps" else 1
    factor = learning_rate_factor(
        ready.start // optimiser.accumulation * unit,
        unit,
        warmup=schedule.warmup,
        total=schedule.total,
    )
    gradients = [p.grad for p in state.encoder.parameters() if p.grad is not None]
    if processes > 1:
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        flat /= processes
        for gradient, part in zip(
            gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(part.view_as(gradient))
    if isinstance(state.table, torch.nn.Parameter) and state.table.grad is not None:
        gradients.append(state.table.grad)
    lazy = state.table if isinstance(state.table, LazyTable) else None
    squares = torch.stack(torch._foreach_norm(gradients)).square().sum()
    norm = (squares + (lazy.squared_norm() if lazy else 0.0)).sqrt()
    scale = (optimiser.clip / (norm + 1e-6)).clamp(max=1.0)  # on the device: nothing waits for it
    torch._foreach_mul_(gradients, scale)
    for group in state.optimiser.param_groups:
        group["lr"] = group["peak"] * factor
    state.optimiser.step()
    state.optimiser.zero_grad()
    if lazy is not None:
        lazy.update(ready.touched.tolist(), config.relation.learning_rate * factor, scale)
    return optimiser.learning_rate * factor, norm
