"""Both optimisers: the encoder's AdamW, and that of the relations a step touched."""

from __future__ import annotations

import torch
import torch.distributed as dist

from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.relation import RELATIONS
from medcoder.model.table import LazyTable
from medcoder.train.batches import Prepared
from medcoder.train.config import TrainConfig
from medcoder.train.state import State


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


def new_state(kg: KG, encoder: TransformerEncoder, config: TrainConfig) -> State:
    """Optimisers and relation table, new."""
    device = next(encoder.parameters()).device
    table: LazyTable | torch.nn.Parameter | None = None
    if config.relation.mu > 0:
        values = RELATIONS.load(config.relation.form)().initial(
            len(kg.relations),
            encoder.width,
            rank=config.relation.rank,
            scale=config.relation.init_scale,
            generator=torch.Generator().manual_seed(config.seed),
        )
        groups = config.sampler.k // config.sampler.m * config.optimiser.accumulation
        decay = config.optimiser.weight_decay
        table = (
            torch.nn.Parameter(values.to(device))
            if config.relation.dense
            else LazyTable(values.to(device), slots=groups, weight_decay=decay)
        )
    kept = [p for p in encoder.parameters() if p.requires_grad]
    peak = config.optimiser.learning_rate
    groups_of = [
        {
            # Biases and the weights of norms, by whatever name, are those of one dimension.
            "params": [p for p in kept if (p.dim() > 1) is decays],
            "weight_decay": config.optimiser.weight_decay if decays else 0.0,
            "peak": peak,
        }
        for decays in (True, False)
    ]
    if isinstance(table, torch.nn.Parameter):
        decay = config.optimiser.weight_decay
        rate = config.relation.learning_rate
        groups_of.append({"params": [table], "weight_decay": decay, "peak": rate})
    optimiser = torch.optim.AdamW(groups_of, lr=peak, fused=device.type == "cuda")
    return State(encoder, optimiser, table)
