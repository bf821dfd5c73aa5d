"""From graph to inputs of a step, on the host and ahead of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.train.config import TrainConfig
from medcoder.train.sampler import Batch, TripletSampler
from medcoder.train.step import Inputs
from medcoder.train.teachers import Teacher
from medcoder.train.tokens import TokenStore

Array = npt.NDArray[Any]


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
    teachers: Sequence[Teacher] = (),
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
            inputs.append(
                Inputs(
                    tokens=tokens,
                    lengths=lengths,
                    concepts=batch.concepts,
                    relations=batch.relations,
                    slots=np.array(places, np.int64),
                    related=related,
                    teachers=[teacher.judge(batch.terms) for teacher in teachers],
                )
            )
        yield Prepared(start, start + size, inputs, np.array(list(slots), np.int64), missed)


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
