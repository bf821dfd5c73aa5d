"""Forward and backward of the steps of one update, on a device.

The steps between two updates see the same parameters, so their terms can go through the encoder
together: the sum of their gradients is the same, and a GPU gets matrices large enough to be busy.
Their losses stay apart: a term is compared with those of its own step alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medcoder.model.encoder import TransformerEncoder
from medcoder.model.packed import pack
from medcoder.model.table import LazyTable
from medcoder.train.objective import NAMES, Objective, gather

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
    teachers: Sequence[tuple[Array, Array, float]] = ()  # unit vectors, which are known, weight


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
        """Add the gradients of the steps of an update; gives NAMES, summed over the steps."""
        total = torch.zeros(len(NAMES), device=self._device)
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
        teachers = [
            (
                self._send(np.stack([units for units, _, _ in judged])),
                self._send(np.stack([speaks for _, speaks, _ in judged])),
                judged[0][2],
            )
            for judged in zip(*(step.teachers for step in steps), strict=True)
        ]
        loss, report = self._objective(gather(embeddings), concepts, rows, related, teachers)
        torch.autograd.backward(loss * (len(steps) / self._accumulation))
        if isinstance(self._table, LazyTable) and rows is not None and rows.grad is not None:
            slots = self._send(np.concatenate([step.slots for step in steps]))
            self._table.add(slots, rows.grad)
        return report

    def _send(self, array: Array) -> Tensor:
        tensor = torch.from_numpy(array)
        if self._device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)
