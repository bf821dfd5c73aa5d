"""From files to a training run: what `medcoder train` and `torchrun -m medcoder.train` share."""

from __future__ import annotations

import csv
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from medcoder.config import TrainConfig
from medcoder.errors import ArtefactError, InputError, UsageError
from medcoder.kg import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.table import LazyTable
from medcoder.sampling import TokenStore, TripletSampler, tokenize_kg
from medcoder.text import language_in
from medcoder.train.batches import prepare
from medcoder.train.log import Progress
from medcoder.train.loop import make_sampler, train
from medcoder.train.objective import Objective
from medcoder.train.step import Step
from medcoder.train.teachers import Teacher
from medcoder.train.update import new_state, update

Array = npt.NDArray[Any]
MOST_UNKNOWN = 0.05  # share of unknown tokens that a language may have
_MEASURED = 3  # updates that a plan runs


@dataclass(frozen=True)
class Extra:
    """Terms beside the graph's: the concept of each, and its text; repeated by weight."""

    concepts: Array
    texts: list[str]


@dataclass
class Run:
    """A run ready to start."""

    kg: KG
    encoder: TransformerEncoder
    store: TokenStore
    config: TrainConfig
    extra: tuple[Array, Array] | None
    teachers: list[Teacher]

    def train(self, out: Path, **options: Any) -> Path:
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
    progress: Callable[[str, int, int], None] | None = None,
) -> Run:
    """Open graph and model, tokenise the terms (once, kept in `out`), check that they fit."""
    graph = KG.open(kg)
    encoder = TransformerEncoder.load(init, pooling=config.pooling, max_length=config.max_length)
    if torch.cuda.is_available():
        device = int(os.environ.get("LOCAL_RANK", "0"))
        torch.cuda.set_device(device)
        encoder.to(f"cuda:{device}")
    terms = read_extra(extra, graph) if extra else Extra(np.zeros(0, np.int64), [])
    store = _store(graph, encoder, out / "tokens", terms.texts, progress)
    check_unknown(graph, store, config)
    numbers = len(graph.terms) + np.arange(len(terms.texts))
    return Run(
        graph,
        encoder,
        store,
        config,
        (terms.concepts, numbers) if extra else None,
        [_teacher(spec, graph, terms.texts) for spec in teachers],
    )


def plan(run: Run) -> dict[str, float | str]:
    """What a run will cost, from running a few updates of it. The encoder is changed by that."""
    config = run.config
    accumulation = config.optimiser.accumulation
    total = config.schedule.total * (accumulation if config.schedule.unit == "updates" else 1)
    sampler: TripletSampler = make_sampler(run.kg, config, run.extra)
    state = new_state(run.kg, run.encoder.train(), config)
    on_gpu = next(run.encoder.parameters()).is_cuda
    step = Step(
        run.encoder,
        state.table,
        Objective(config),
        accumulation=accumulation,
        at_once=accumulation if on_gpu else 1,
        bf16=config.bf16 and on_gpu,
    )
    tokens, seconds = 0, 0.0
    steps = range((_MEASURED + 1) * accumulation)
    for number, ready in enumerate(
        prepare(sampler, run.store, config, steps, teachers=run.teachers)
    ):
        begin = time.perf_counter()
        step.run(ready.inputs)
        update(state, ready, config, 1)
        if on_gpu:
            torch.cuda.synchronize()
        if number:  # the first one warms up
            seconds += time.perf_counter() - begin
            tokens += sum(len(inputs.tokens) for inputs in ready.inputs)
    measured = _MEASURED * accumulation
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if on_gpu:
        memory = torch.cuda.max_memory_allocated() / 1e9
    parameters = sum(p.numel() for p in run.encoder.parameters())
    values = state.table.values if isinstance(state.table, LazyTable) else state.table
    return {
        "device": torch.cuda.get_device_name()
        if on_gpu
        else f"cpu, {torch.get_num_threads()} threads",
        "steps": total,
        "updates": total // accumulation,
        "terms_a_step": 2 * sampler.k + 2 * sampler.pairs,
        "tokens_a_step": tokens / measured,
        "encoder_parameters": parameters,
        "relation_parameters": 0 if values is None else values.numel(),
        "memory_gb": memory,
        "seconds_a_step": seconds / measured,
        "hours": seconds / measured * total / 3600,
    }


def check_unknown(kg: KG, store: TokenStore, config: TrainConfig) -> None:
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
        good = ",".join(sorted(set(rates) - set(bad))) or "none"
        raise InputError(
            f"the model's vocabulary makes too many tokens unknown: {listed}",
            remedy=f"Train on languages it knows, with --languages {good}, or start from a "
            "multilingual model",
        )


def read_extra(path: Path, kg: KG) -> Extra:
    """A table with the columns term and concept, and maybe language and weight, .csv or .tsv."""
    dialect: dict[str, Any] = {"delimiter": ","}
    if path.suffix == ".tsv":
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    concepts: list[int] = []
    texts: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, **dialect)
            missing = {"term", "concept"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"no column {', '.join(sorted(missing))}; there are: "
                    f"{', '.join(reader.fieldnames or ())}",
                    file=path,
                    row=1,
                    remedy="Name the columns term and concept",
                )
            for number, row in enumerate(reader, 2):
                term, concept = (row["term"] or "").strip(), (row["concept"] or "").strip()
                weight = row.get("weight") or "1"
                if not term or concept not in kg or not weight.isdigit():
                    raise InputError(
                        f"term {term!r}, concept {concept!r}, weight {weight!r}",
                        file=path,
                        row=number,
                        remedy="Give a term, the id of a concept of the graph, a whole weight",
                    )
                texts += [term] * int(weight)
                concepts += [kg.index(concept)] * int(weight)
    except FileNotFoundError as error:
        raise InputError("does not exist", file=path, remedy="Check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error}", file=path, remedy="Convert it") from error
    return Extra(np.array(concepts, np.int64), texts)


def _store(
    kg: KG,
    encoder: TransformerEncoder,
    path: Path,
    extra: Sequence[str],
    progress: Callable[[str, int, int], None] | None,
) -> TokenStore:
    tokenizer = encoder.tokenizer.backend_tokenizer
    tokenizer.enable_truncation(encoder.max_length)
    tokenizer.no_padding()
    length = encoder.max_length
    rank = int(os.environ.get("RANK", "0"))
    if rank:  # the first process makes it
        while not path.exists():
            time.sleep(0.1)
    try:
        return TokenStore.open(path, kg=kg, tokenizer=tokenizer, max_length=length, extra=extra)
    except ArtefactError:
        if rank:
            raise
    unknown = encoder.tokenizer.unk_token_id
    return tokenize_kg(
        kg, tokenizer, path, max_length=length, unknown=unknown, extra=extra, progress=progress
    )


def _teacher(spec: str, kg: KG, extra: list[str]) -> Teacher:
    """PATH[,weight=20][,languages=en+fr]: a model directory, or a .npy of vectors, one a term."""
    name, *options = spec.split(",")
    settings = dict(option.partition("=")[::2] for option in options)
    unknown = set(settings) - {"weight", "languages"}
    try:
        weight = float(settings.get("weight", "1"))
    except ValueError:
        unknown.add("weight")
    if unknown:
        raise UsageError(f"--teacher {spec}: write PATH,weight=20,languages=en+fr")
    languages = settings["languages"].split("+") if "languages" in settings else None
    known = [languages is None or language_in(tag, languages) for tag in kg.languages]
    of_graph = np.array(known, bool)[kg.terms.info[:, 0]]
    speaks = np.concatenate([of_graph, np.ones(len(extra), bool)])
    path = Path(name)
    if path.suffix == ".npy":
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        return Teacher(weight=weight, speaks=speaks, vectors=vectors)
    encoder = TransformerEncoder.load(path).eval()
    if torch.cuda.is_available():
        encoder.cuda()

    def text(number: int) -> str:
        known = len(kg.terms)
        return kg.terms.text(number) if number < known else extra[number - known]

    return Teacher(weight=weight, speaks=speaks, encode=encoder.encode, text=text)


__all__ = ["Progress", "Run", "check_unknown", "open_run", "plan", "read_extra"]
