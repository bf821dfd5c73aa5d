"""What a run needs before its first step, checked and made from settings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder import __version__
from medcoder.errors import InputError, UsageError
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.train.config import TrainConfig
from medcoder.train.objective import Objective
from medcoder.train.sampler import TripletSampler
from medcoder.train.state import State
from medcoder.train.step import Step
from medcoder.train.teachers import Teacher
from medcoder.train.tokens import TokenStore


def check_options(config: TrainConfig, processes: int, *, hard: bool, extra: bool) -> None:
    """An error if settings ask for what is not there; `hard`: hard negatives can be found."""
    options = config.sampler
    if 2 * options.k % processes or 2 * options.pairs % processes:
        raise UsageError(
            f"{processes} processes do not divide the slots of a step: change sampler.k = "
            f"{options.k} and sampler.pairs = {options.pairs}"
        )
    if options.hard_every and not hard:
        raise UsageError(
            "sampler.hard_every needs a function `neighbours` that finds concepts near each "
            "other: set it to 0"
        )
    for name in ("extra_share", "extra_anchored"):
        if getattr(options, name) and not extra:
            raise UsageError(
                f"sampler.{name} is {getattr(options, name)}, but there are no extra terms: name "
                "their table with --extra, or leave it out"
            )


def make_step(encoder: TransformerEncoder, state: State, config: TrainConfig) -> Step:
    on_gpu = next(encoder.parameters()).is_cuda
    return Step(
        encoder,
        state.table,
        Objective(config),
        accumulation=config.optimiser.accumulation,
        # A GPU wants all steps of an update together; a CPU gains nothing and has less memory.
        at_once=config.optimiser.accumulation if on_gpu else 1,
        bf16=config.bf16 and on_gpu,
    )


def make_sampler(
    kg: KG,
    config: TrainConfig,
    extra: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None,
    store: TokenStore | None = None,
) -> TripletSampler:
    check_relations(kg, config)
    options = config.sampler
    return TripletSampler(
        kg,
        k=options.k if len(kg.edges) else 0,
        m=options.m,
        pairs=options.pairs,
        languages=frozenset(options.languages) or None,
        terms_per_language=options.terms_per_language or None,
        relation_power=options.relation_power,
        extra=extra,
        extra_share=options.extra_share,
        extra_anchored=options.extra_anchored,
        pair_power=options.pair_power,
        alike=store.alike() if store is not None else None,
    )


def check_relations(kg: KG, config: TrainConfig) -> None:
    """An error if the graph has no relations, and the settings want some."""
    if config.relation.mu > 0 and len(kg.edges) == 0:
        raise InputError(
            f"{kg.path} has no relations, and relation.mu is {config.relation.mu:g}",
            remedy="Train with --set relation.mu=0 and sampler.pairs, or add relations",
        )
    if config.relation.mu == 0 and len(kg.edges) == 0 and not config.sampler.pairs:
        raise UsageError(f"{kg.path} has no relations: set sampler.pairs to draw synonym pairs")


def all_steps(config: TrainConfig) -> int:
    """Steps of the whole run, which ends with an update."""
    accumulation = config.optimiser.accumulation
    if config.schedule.unit == "updates":
        return config.schedule.total * accumulation
    return whole_updates(config.schedule.total, config)


def whole_updates(steps: int, config: TrainConfig) -> int:
    return -(-steps // config.optimiser.accumulation) * config.optimiser.accumulation


def about_run(
    kg: KG,
    encoder: TransformerEncoder,
    store: TokenStore,
    extra: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None,
    teachers: Sequence[Teacher],
) -> dict[str, Any]:
    """What must be the same when a run is resumed, by the words that an error uses."""
    shapes = {name: tuple(values.shape) for name, values in encoder.model.state_dict().items()}
    drawn = b"".join(np.ascontiguousarray(part).tobytes() for part in extra or ())
    return {
        "graph": kg.fingerprint,
        # Its weights come from the checkpoint, and its folder may have moved.
        "model": f"{Path(_name(encoder)).name} {_digest(repr(shapes).encode())}",
        "tokenizer or table of extra terms": f"{store.meta['parents']} {_digest(drawn)}",
        "choice of teachers": [str(teacher) for teacher in teachers],
    }


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _name(encoder: TransformerEncoder) -> str:
    return str(getattr(encoder.model.config, "_name_or_path", ""))


def card(kg: KG, encoder: TransformerEncoder, config: TrainConfig) -> dict[str, Any]:
    """What a model directory says about where it comes from."""
    return {
        "made_by": f"medcoder {__version__}",
        "seed": config.seed,
        "kg": kg.fingerprint,
        "init": _name(encoder),
    }
