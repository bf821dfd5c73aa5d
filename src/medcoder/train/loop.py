"""The training loop, from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from medcoder.errors import UsageError
from medcoder.files import disk_full
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.prefetch import prefetch
from medcoder.train.config import TrainConfig, to_toml
from medcoder.train.log import Log, Report, all_steps, crosses, cut, whole_updates
from medcoder.train.objective import Objective, Sources
from medcoder.train.objective.teacher import Teacher
from medcoder.train.processes import held, join, share, wait
from medcoder.train.sampler import check_sampler_options, make_sampler
from medcoder.train.state import (
    State,
    about_run,
    card,
    load_checkpoint,
    new_state,
    save_checkpoint,
    save_model,
)
from medcoder.train.step import Prepared, make_step, prepare, update
from medcoder.train.tokens import TokenStore
from medcoder.unfinished import sweep

Evaluate = Callable[[TransformerEncoder], dict[str, float]]  # "score" chooses the best model
Neighbours = Callable[[TransformerEncoder], npt.NDArray[Any]]  # (concepts, h) near concepts


def train(
    kg: KG,
    encoder: TransformerEncoder,
    store: TokenStore,
    out: Path,
    config: TrainConfig,
    *,
    extra: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None,
    teachers: Sequence[Teacher] = (),
    objective: Objective | None = None,
    evaluate: Evaluate | None = None,
    neighbours: Neighbours | None = None,
    resume: bool = False,
    progress: Report | None = None,
    stop_after: int | None = None,
    tensorboard: bool = False,
) -> Path:
    """Train `encoder` on `kg`; gives the model directory.

    An interrupt saves a checkpoint and is raised again. A run resumed from a checkpoint does on a
    CPU exactly what it would have done without a break.

    Args:
        store: token ids of the graph's terms, and of extra ones after them.
        out: the run: config.toml, metrics.jsonl, checkpoint/, model/, and best/ if evaluated.
        extra: (concepts, terms) of extra terms, see TripletSampler.
        objective: the loss, if it is not just what `config` and `teachers` say.
        resume: go on from the checkpoint in `out`; without one, start.
        evaluate: called every `evaluate_every` steps and at the end, in the first process; the
            model with the best "score" is kept.
        neighbours: called every `sampler.hard_every` steps for hard negatives, in the first
            process.
        stop_after: stop, with a checkpoint, after so many steps in all.
        tensorboard: write event files under out/tensorboard too.
    """
    rank, processes = join()
    check_sampler_options(config, processes, hard=neighbours is not None, extra=extra is not None)
    sampler = make_sampler(kg, config, extra, store)
    encoder.train()
    encoder.zero_grad()
    state = new_state(kg, encoder, config)
    if objective is None:
        objective = Objective(Sources(config, kg, encoder, teachers))
    state.memory = objective.memory
    about = about_run(kg, encoder, store, extra, teachers, str(objective))
    checkpoint, metrics = out / "checkpoint", out / "metrics.jsonl"
    if rank == 0:
        sweep(checkpoint)  # a run killed while it replaced a checkpoint had moved the old one
    wait()
    if checkpoint.exists() and not resume:
        raise UsageError(
            "holds a run", where=out, remedy="Resume it, or train to another directory"
        )
    if checkpoint.exists():
        load_checkpoint(state, checkpoint, config, about)
    if rank == 0:
        with disk_full(out):
            out.mkdir(parents=True, exist_ok=True)
            (out / "config.toml").write_text(to_toml(config), encoding="utf-8")
            cut(metrics, state.step)
    step = make_step(encoder, state, objective, config)
    total = all_steps(config)
    end = total if stop_after is None else min(total, whole_updates(stop_after, config))
    log = Log(
        metrics,
        config,
        state,
        progress,
        objective.names,
        enabled=rank == 0,
        tensorboard=tensorboard,
    )

    def save() -> None:
        log.check()  # a checkpoint is always a good one
        log.keep()
        if rank == 0:
            save_checkpoint(state, checkpoint, config, about)

    def judge() -> None:
        due = state.step == total or crosses(state.step, config.evaluate_every, config)
        if evaluate is not None and due and state.evaluated < state.step and rank == 0:
            log.check()
            _keep_best(state, evaluate, out, log, card(kg, encoder, config))

    def prepared() -> Generator[Prepared]:
        every = whole_updates(config.sampler.hard_every, config)
        for steps in _stretches(state.step, end, every):
            if neighbours is not None and every:
                # One that begins in the middle goes on with what the checkpoint has.
                if state.hard is None or steps.start % every == 0:
                    # Of one process: by rounding, those of others might differ, and batches too.
                    near = _near(neighbours, encoder, len(kg)) if rank == 0 else None
                    state.hard = share(near)
                sampler.hard = state.hard
            batches = prepare(
                sampler, store, config, steps, objective=objective, rank=rank, processes=processes
            )
            yield from prefetch(batches, depth=2)

    try:
        judge()  # where an interrupt came before the last evaluation
        with closing(prepared()) as updates:
            for ready in updates:
                objective.begin(ready.start)
                _seed(config.seed, ready.start, rank)
                report = step.run(ready.inputs)
                with held():
                    rate, norm = update(state, ready, config, processes)
                    state.step = ready.stop
                    log.add(report, norm, ready)
                    log.write(rate)
                judge()
                if crosses(state.step, config.checkpoint_every, config):
                    save()
        save()
        if state.step == total and rank == 0:
            save_model(encoder, out / "model", card(kg, encoder, config))
    except KeyboardInterrupt:
        save()
        raise
    finally:
        log.close()
    wait()
    return out / "model"


def _keep_best(
    state: State, evaluate: Evaluate, out: Path, log: Log, about: dict[str, Any]
) -> None:
    scores = evaluate(state.encoder)
    state.encoder.train()
    with held():
        if scores["score"] > state.best:
            state.best = scores["score"]
            save_model(state.encoder, out / "best", {"step": state.step, **about})
        state.evaluated = state.step
        log.line({"step": state.step, **{f"eval.{name}": value for name, value in scores.items()}})


def _near(neighbours: Neighbours, encoder: TransformerEncoder, concepts: int) -> npt.NDArray[Any]:
    """Hard negatives, after a look at what came back."""
    near = np.ascontiguousarray(neighbours(encoder))
    encoder.train()
    good = near.ndim == 2 and len(near) == concepts and near.dtype.kind in "iu" and near.size
    if not good or near.min() < 0 or near.max() >= concepts:
        raise UsageError(
            "neighbours gave no array of numbers of concepts",
            values=f"{near.dtype} {near.shape}",
            remedy=f"Give numbers from 0 to {concepts - 1} in an array ({concepts}, h)",
        )
    return near.astype(np.int32)


def _seed(seed: int, step: int, rank: int) -> None:
    """Dropout of a step is always the same, whatever was drawn before."""
    state = np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]))


def _stretches(start: int, end: int, every: int) -> Iterator[range]:
    """Steps between two refreshes of the hard negatives; without any, all steps."""
    while start < end:
        stop = min(end, (start // every + 1) * every) if every else end
        yield range(start, stop)
        start = stop


__all__ = ["Evaluate", "Neighbours", "train"]
