"""The training loop, from top to bottom."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
import torch.distributed as dist

from medcoder import __version__
from medcoder.artefact import disk_full
from medcoder.config import TrainConfig, to_toml
from medcoder.errors import InputError, UsageError
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder
from medcoder.prefetch import prefetch
from medcoder.sampling import TokenStore, TripletSampler
from medcoder.train.batches import prepare
from medcoder.train.log import Log, Progress, crosses, cut
from medcoder.train.objective import Objective
from medcoder.train.state import State, load_checkpoint, save_checkpoint
from medcoder.train.step import Step
from medcoder.train.teachers import Teacher
from medcoder.train.update import new_state, update

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
    evaluate: Evaluate | None = None,
    neighbours: Neighbours | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    stop_after: int | None = None,
    tensorboard: bool = False,
) -> Path:
    """Train `encoder` on `kg`; gives the model directory.

    Args:
        store: token ids of the graph's terms, and of extra ones after them.
        out: the run: config.toml, metrics.jsonl, checkpoint/, model/, and best/ if evaluated.
        extra: (concepts, terms) of extra terms, see TripletSampler.
        evaluate: called every `evaluate_every` steps; the model with the best "score" is kept.
        neighbours: called every `sampler.hard_every` steps for hard negatives.
        stop_after: stop, with a checkpoint, after so many steps in all.
        tensorboard: write event files under out/tensorboard too.
    """
    rank, processes = _distributed()
    torch.manual_seed(config.seed)
    sampler = make_sampler(kg, config, extra)
    if 2 * config.sampler.k % processes or config.sampler.pairs * 2 % processes:
        raise UsageError(
            f"{processes} processes do not divide the slots of a step: change sampler.k"
        )
    encoder.train()
    state = new_state(kg, encoder, config)
    about = {"kg": kg.fingerprint, "model": _name(encoder)}
    checkpoint, metrics = out / "checkpoint", out / "metrics.jsonl"
    if resume and checkpoint.exists():
        load_checkpoint(state, checkpoint, config, about)
        cut(metrics, state.step)
    elif checkpoint.exists():
        raise UsageError(f"{out} holds a run. Resume it, or train to another directory")
    with disk_full(out):
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.toml").write_text(to_toml(config), encoding="utf-8")
    on_gpu = next(encoder.parameters()).is_cuda
    step = Step(
        encoder,
        state.table,
        Objective(config),
        accumulation=config.optimiser.accumulation,
        # A GPU wants all steps of an update together; a CPU gains nothing and has less memory.
        at_once=config.optimiser.accumulation if on_gpu else 1,
        bf16=config.bf16 and on_gpu,
    )
    total = config.schedule.total
    if config.schedule.unit == "updates":
        total *= config.optimiser.accumulation
    end = _whole_updates(min(total, stop_after or total), config)
    total = _whole_updates(total, config)
    state.remember_rng()
    log = Log(metrics, config, state, progress, enabled=rank == 0, tensorboard=tensorboard)
    save = _Saver(state, checkpoint, config, about, enabled=rank == 0)
    try:
        for steps in _stretches(state.step, end, _whole_updates(config.sampler.hard_every, config)):
            if neighbours is not None and config.sampler.hard_every:
                sampler.hard = neighbours(encoder)
            prepared = prepare(
                sampler, store, config, steps, teachers=teachers, rank=rank, processes=processes
            )
            for ready in prefetch(prepared, depth=2):
                log.add(step.run(ready.inputs), ready)
                rate = update(state, ready, config, processes)
                state.step = ready.stop
                state.remember_rng()
                log.write(rate)
                if crosses(state.step, config.checkpoint_every, config):
                    save(log)
                if evaluate is not None and crosses(state.step, config.evaluate_every, config):
                    log.check()
                    _keep_best(state, evaluate, out, log, about, enabled=rank == 0)
    except KeyboardInterrupt:
        save(log)
        raise
    log.check()
    save(log)
    if state.step >= total and rank == 0:
        save_encoder(encoder, out / "model", about=_card(config, about))
    return out / "model"


def make_sampler(
    kg: KG, config: TrainConfig, extra: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None
) -> TripletSampler:
    options = config.sampler
    if config.relation.mu > 0 and len(kg.edges) == 0:
        raise InputError(
            f"{kg.path} has no relations, and relation.mu is {config.relation.mu:g}",
            remedy="Train with --set relation.mu=0 and sampler.pairs, or add relations",
        )
    if config.relation.mu == 0 and len(kg.edges) == 0 and not options.pairs:
        raise UsageError(f"{kg.path} has no relations: set sampler.pairs to draw synonym pairs")
    return TripletSampler(
        kg,
        k=options.k if len(kg.edges) else 0,
        m=options.m,
        pairs=options.pairs,
        languages=frozenset(options.languages) or None,
        terms_per_language=options.terms_per_language or None,
        relation_power=options.relation_power,
        extra=extra,
    )


class _Saver:
    """Checkpoints of a run."""

    def __init__(
        self, state: State, path: Path, config: TrainConfig, about: dict[str, Any], *, enabled: bool
    ) -> None:
        self._state, self._path, self._config, self._about = state, path, config, about
        self._enabled = enabled

    def __call__(self, log: Log) -> None:
        log.check()  # a checkpoint is always a good one
        log.keep()
        if self._enabled:
            save_checkpoint(self._state, self._path, self._config, self._about)
        if dist.is_available() and dist.is_initialized():
            dist.barrier()


def _keep_best(
    state: State, evaluate: Evaluate, out: Path, log: Log, about: dict[str, Any], *, enabled: bool
) -> None:
    if not enabled:
        return
    scores = evaluate(state.encoder)
    log.line({"step": state.step, **{f"eval.{name}": value for name, value in scores.items()}})
    if scores["score"] > state.best:
        state.best = scores["score"]
        save_encoder(state.encoder, out / "best", about={"step": state.step, **about})
    state.encoder.train()


def _whole_updates(steps: int, config: TrainConfig) -> int:
    return -(-steps // config.optimiser.accumulation) * config.optimiser.accumulation


def _stretches(start: int, end: int, every: int) -> Iterator[range]:
    """Steps between two refreshes of the hard negatives; without any, all steps."""
    while start < end:
        stop = min(end, (start // every + 1) * every) if every else end
        yield range(start, stop)
        start = stop


def _distributed() -> tuple[int, int]:
    """Rank and number of processes; joins the group that torchrun asks for."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes == 1:
        return 0, 1
    if not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return dist.get_rank(), processes


def _name(encoder: TransformerEncoder) -> str:
    return str(getattr(encoder.model.config, "_name_or_path", ""))


def _card(config: TrainConfig, about: dict[str, Any]) -> dict[str, Any]:
    return {"made_by": f"medcoder {__version__}", "seed": config.seed, **about}


__all__ = ["Evaluate", "Neighbours", "make_sampler", "train"]
