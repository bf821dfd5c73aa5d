"""What a run will cost, from running a few updates of it."""

from __future__ import annotations

import resource
import time

import torch

from medcoder.model.table import LazyTable
from medcoder.train.batches import prepare
from medcoder.train.processes import join
from medcoder.train.run import Run
from medcoder.train.setup import all_steps, make_sampler, make_step
from medcoder.train.update import new_state, update

_MEASURED = 3  # updates


def plan(run: Run) -> dict[str, float | str]:
    """Steps, sizes, memory and time of a run. The encoder is changed by that."""
    config = run.config
    accumulation = config.optimiser.accumulation
    total = all_steps(config)
    rank, processes = join()
    sampler = make_sampler(run.kg, config, run.extra, run.store)
    state = new_state(run.kg, run.encoder.train(), config)
    on_gpu = next(run.encoder.parameters()).is_cuda
    step = make_step(run.encoder, state, config)
    tokens, seconds = 0, 0.0
    prepared = prepare(
        sampler,
        run.store,
        config,
        range((_MEASURED + 1) * accumulation),
        teachers=run.teachers,
        rank=rank,
        processes=processes,
    )
    for number, ready in enumerate(prepared):
        begin = time.perf_counter()
        step.run(ready.inputs)
        update(state, ready, config, processes)
        if on_gpu:
            torch.cuda.synchronize()
        if number:  # the first one warms up
            seconds += time.perf_counter() - begin
            tokens += sum(len(inputs.tokens) for inputs in ready.inputs)
    measured = _MEASURED * accumulation
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if on_gpu:
        memory = torch.cuda.max_memory_allocated() / 1e9
    values = state.table.values if isinstance(state.table, LazyTable) else state.table
    return {
        "device": torch.cuda.get_device_name()
        if on_gpu
        else f"cpu, {torch.get_num_threads()} threads",
        "steps": total,
        "updates": total // accumulation,
        "terms_a_step": 2 * sampler.k + 2 * sampler.pairs,
        "tokens_a_step": tokens * processes / measured,
        "encoder_parameters": sum(p.numel() for p in run.encoder.parameters()),
        "relation_parameters": 0 if values is None else values.numel(),
        "memory_gb": memory,  # of one process
        "seconds_a_step": seconds / measured,
        "hours": seconds / measured * total / 3600,
    }
