"""From files to a training run, and what it will cost.

`medcoder train` and `torchrun -m medcoder.train` share this.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medcoder.errors import ArtefactError, InputError, UsageError
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.lazy_table import LazyTable
from medcoder.text import fold, language_in, language_tag
from medcoder.train.config import TrainConfig
from medcoder.train.extra import Extra, read_extra, read_queries
from medcoder.train.log import all_steps
from medcoder.train.loop import Evaluate, Neighbours, train
from medcoder.train.objective import Objective, Sources
from medcoder.train.objective.teacher import Teacher, open_teacher
from medcoder.train.processes import device, join, wait
from medcoder.train.sampler import check_relations, check_sampler_options, make_sampler
from medcoder.train.state import new_state
from medcoder.train.step import make_step, prepare, update
from medcoder.train.tokens import TokenStore, tokenize_kg
from medcoder.types import Progress

Array = npt.NDArray[Any]
_MEASURED = 3  # updates of a plan
_NEAR = 8  # concepts that are kept as near to each
_NAMES = 1 << 16  # names encoded at a time
_SCORES = 1 << 28  # similarities held at a time: a gigabyte
MOST_UNKNOWN = 0.05  # share of unknown tokens that a language may have


@dataclass
class Run:
    """A run ready to start."""

    kg: KG
    encoder: TransformerEncoder
    store: TokenStore
    config: TrainConfig
    extra: tuple[Array, Array] | None
    teachers: list[Teacher]
    queries: Extra | None = None
    texts: Extra = field(default_factory=Extra)  # what `extra` was drawn from

    @cached_property
    def objective(self) -> Objective:
        return Objective(Sources(self.config, self.kg, self.encoder, self.teachers, self.texts))

    def train(self, out: Path, *, doing: Progress | None = None, **options: Any) -> Path:
        """Train as `medcoder.train.train`; `doing` hears of what happens between steps."""
        options.setdefault("objective", self.objective)
        options.setdefault("neighbours", hard_negatives(self.kg, doing))
        if self.queries is not None:
            options.setdefault("evaluate", accuracy(self.kg, self.queries, doing))
        return train(
            self.kg,
            self.encoder,
            self.store,
            out,
            self.config,
            extra=self.extra,
            teachers=self.teachers,
            **options,
        )


def open_run(
    kg: Path,
    init: str,
    out: Path,
    config: TrainConfig,
    *,
    extra: Path | None = None,
    teachers: Sequence[str] = (),
    evaluate: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Open graph and model, tokenise the terms (once, kept in `out`), check that they fit."""
    check_sampler_options(config, join()[1], hard=True, extra=extra is not None)
    graph = KG.open(kg)
    check_relations(graph, config)
    _check_languages(graph, config)
    encoder = TransformerEncoder.load(
        init, pooling=config.pooling, max_length=config.max_length
    ).to(device())
    terms = read_extra(extra, graph) if extra else Extra()
    queries = read_queries(evaluate, graph) if evaluate else None
    store = _store(graph, encoder, out / "tokens", terms.texts, progress)
    check_unknown(store, config)
    return Run(
        graph,
        encoder,
        store,
        config,
        terms.draws(len(graph.terms), config.sampler.languages) if extra else None,
        [open_teacher(spec, graph, terms) for spec in teachers],
        queries,
        terms,
    )


def speaking(config: TrainConfig, languages: Sequence[str]) -> TrainConfig:
    """The settings with these languages alone, by codes as releases have them."""
    tags = tuple(language_tag(code) for code in languages)
    return replace(config, sampler=replace(config.sampler, languages=tags))


def check_unknown(store: TokenStore, config: TrainConfig) -> None:
    """An error if the model's vocabulary does not know a language that is to be trained on."""
    wanted = config.sampler.languages
    rates = {
        tag: unknown / tokens
        for tag, (tokens, unknown) in store.unknown.items()
        if tokens and (not wanted or language_in(tag, wanted))
    }
    bad = {tag: rate for tag, rate in rates.items() if rate > MOST_UNKNOWN}
    if bad:
        listed = ", ".join(f"{tag} {rate:.0%}" for tag, rate in sorted(bad.items()))
        good = ",".join(sorted(set(rates) - set(bad)))
        known = f"Train on languages it knows, with --languages {good}, or start"
        raise InputError(
            "the model's vocabulary makes too many tokens unknown",
            values=listed,
            remedy=f"{known if good else 'Start'} from a multilingual model",
        )


def _check_languages(kg: KG, config: TrainConfig) -> None:
    """An error if a language that is asked for has no terms, be it for a slip of the pen."""
    for wanted in config.sampler.languages:
        if not any(language_in(tag, [wanted]) for tag in kg.languages):
            raise UsageError(
                "the graph has no terms of this language",
                where="sampler.languages",
                values=repr(wanted),
                remedy=f"There are: {', '.join(kg.languages)}",
            )


def _store(
    kg: KG,
    encoder: TransformerEncoder,
    path: Path,
    extra: Sequence[str],
    progress: Progress | None,
) -> TokenStore:
    tokenizer = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise UsageError(
            "the model's tokenizer is not a fast one", remedy="Save it with a tokenizer.json"
        )
    tokenizer.enable_truncation(encoder.max_length)
    tokenizer.no_padding()
    length = encoder.max_length
    rank, _ = join()
    if rank:  # the first process makes it
        wait()
        return TokenStore.open(path, kg=kg, tokenizer=tokenizer, max_length=length, extra=extra)
    try:
        store = TokenStore.open(path, kg=kg, tokenizer=tokenizer, max_length=length, extra=extra)
    except ArtefactError:
        unknown = encoder.tokenizer.unk_token_id
        store = tokenize_kg(
            kg, tokenizer, path, max_length=length, unknown=unknown, extra=extra, progress=progress
        )
    wait()
    return store


def plan(run: Run) -> dict[str, float | str]:
    """Steps, sizes, memory and time of a run. The encoder is changed by that."""
    config = run.config
    accumulation = config.optimiser.accumulation
    total = all_steps(config)
    rank, processes = join()
    sampler = make_sampler(run.kg, config, run.extra, run.store)
    state = new_state(run.kg, run.encoder.train(), config)
    on_gpu = next(run.encoder.parameters()).is_cuda
    step = make_step(run.encoder, state, run.objective, config)
    tokens, seconds = 0, 0.0
    prepared = prepare(
        sampler,
        run.store,
        config,
        range((_MEASURED + 1) * accumulation),
        objective=run.objective,
        rank=rank,
        processes=processes,
    )
    for number, ready in enumerate(prepared):
        begin = time.perf_counter()
        run.objective.begin(ready.start)
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


# Exact search over preferred names by the model of the moment: a score, and hard negatives


def accuracy(kg: KG, queries: Extra, doing: Progress | None = None) -> Evaluate:
    """The share of queries, by weight, whose nearest preferred name is that of their concept."""
    meant = [fold(kg.terms.preferred(concept)) for concept in queries.concepts]

    def evaluate(encoder: TransformerEncoder) -> dict[str, float]:
        names = _encode_names(kg, encoder, doing)
        asked = torch.from_numpy(encoder.encode(queries.texts)).to(names.device)
        nearest: list[int] = []
        rows = _rows(names)
        for start in range(0, len(asked), rows):
            nearest += (asked[start : start + rows] @ names.T).argmax(1).tolist()
        # By name: nobody can tell two concepts of one name apart.
        right = [
            fold(kg.terms.preferred(concept)) == name
            for concept, name in zip(nearest, meant, strict=True)
        ]
        return {"score": float(np.average(right, weights=queries.weights))}

    return evaluate


def hard_negatives(kg: KG, doing: Progress | None = None) -> Neighbours:
    """The concepts with the nearest preferred names, for each."""

    def neighbours(encoder: TransformerEncoder) -> npt.NDArray[np.int64]:
        names = _encode_names(kg, encoder, doing)
        count = min(_NEAR, max(len(kg) - 1, 1))
        nearest = np.empty((len(kg), count), np.int64)
        rows = _rows(names)
        for start in range(0, len(kg), rows):
            scores = names[start : start + rows] @ names.T  # (rows, concepts)
            scores.diagonal(start).fill_(-torch.inf)  # a concept is not near itself
            stop = start + len(scores)
            nearest[start:stop] = scores.topk(count).indices.cpu().numpy()
            if doing:
                doing("finding hard negatives", stop, len(kg))
        return nearest

    return neighbours


def _encode_names(kg: KG, encoder: TransformerEncoder, doing: Progress | None) -> Tensor:
    """Unit vectors (concepts, l) of the preferred names, on the encoder's device."""
    device = next(encoder.parameters()).device
    vectors = torch.empty(len(kg), encoder.width, device=device)
    for start in range(0, len(kg), _NAMES):
        stop = min(start + _NAMES, len(kg))
        names = [kg.terms.preferred(concept) for concept in range(start, stop)]
        vectors[start:stop] = torch.from_numpy(encoder.encode(names))
        if doing:
            doing("encoding names", stop, len(kg))
    return vectors


def _rows(names: Tensor) -> int:
    """How many rows of similarities to all names are made at a time."""
    return max(_SCORES // len(names), 1)


__all__ = ["Run", "check_unknown", "open_run", "plan", "speaking"]
