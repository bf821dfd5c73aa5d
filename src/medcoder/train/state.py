"""What a run is made of and what it leaves on disk: checkpoints, complete and exact, and models."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from medcoder import __version__
from medcoder.artefact import create, open_artefact
from medcoder.errors import ArtefactError
from medcoder.kg import KG
from medcoder.model import RELATIONS
from medcoder.model.encoder import TransformerEncoder, save_encoder
from medcoder.model.lazy_table import LazyTable
from medcoder.train.config import TrainConfig, load, to_toml
from medcoder.train.tokens import TokenStore

Array = npt.NDArray[Any]
KIND = "checkpoint"
VERSION = 1


@dataclass
class State:
    """Everything that changes while training."""

    encoder: TransformerEncoder
    optimiser: torch.optim.AdamW
    table: LazyTable | torch.nn.Parameter | None
    step: int = 0  # steps done, always a whole number of updates
    best: float = float("-inf")
    window: list[float] = field(default_factory=list)  # sums of the reports since the last log
    window_steps: int = 0
    missed: float | None = None  # share of missed positives, as last measured
    evaluated: int = 0  # step of the last evaluation
    hard: Array | None = None  # (concepts, h) near concepts, by the model of a while ago
    # What terms of the objective keep between steps, by the name of the term.
    memory: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        names = {id(p): name for name, p in self.encoder.named_parameters()}
        tensors = {f"model.{name}": t for name, t in self.encoder.model.state_dict().items()}
        for parameter, state in self.optimiser.state.items():
            name = names.get(id(parameter), "relation")
            tensors |= {f"adam.{name}.{key}": value for key, value in state.items()}
        if isinstance(self.table, LazyTable):
            tensors |= {f"table.{key}": value for key, value in self.table.state().items()}
        elif self.table is not None:
            tensors["table.values"] = self.table
        for name, kept in self.memory.items():
            tensors |= {f"memory.{name}.{key}": tensor for key, tensor in kept.items()}
        if self.hard is not None:
            tensors["hard"] = torch.from_numpy(self.hard)
        return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


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
    peak, rows_peak = config.optimiser.learning_rate, config.optimiser.rows_rate
    rows = encoder.model.get_input_embeddings().weight if rows_peak else None
    kept = [p for p in kept if p is not rows]
    groups_of = [
        {
            # Biases and the weights of norms, by whatever name, are those of one dimension.
            "params": [p for p in kept if (p.dim() > 1) is decays],
            "weight_decay": config.optimiser.weight_decay if decays else 0.0,
            "peak": peak,
        }
        for decays in (True, False)
    ]
    if rows is not None:
        decay = config.optimiser.weight_decay
        groups_of.append({"params": [rows], "weight_decay": decay, "peak": rows_peak})
    if isinstance(table, torch.nn.Parameter):
        decay = config.optimiser.weight_decay
        rate = config.relation.learning_rate
        groups_of.append({"params": [table], "weight_decay": decay, "peak": rate})
    optimiser = torch.optim.AdamW(groups_of, lr=peak, fused=device.type == "cuda")
    return State(encoder, optimiser, table)


def save_checkpoint(state: State, path: Path, config: TrainConfig, about: dict[str, Any]) -> None:
    tensors = {name: tensor.cpu().clone() for name, tensor in state.tensors().items()}
    with create(path, kind=KIND, version=VERSION, overwrite=True) as draft, _system_errors():
        save_file(tensors, draft.path / "state.safetensors")
        (draft.path / "config.toml").write_text(to_toml(config), encoding="utf-8")
        progress = {
            "step": state.step,
            "best": state.best if state.best > float("-inf") else None,
            "window": state.window,
            "window_steps": state.window_steps,
            "missed": state.missed,
            "evaluated": state.evaluated,
        }
        (draft.path / "progress.json").write_text(json.dumps(progress), encoding="utf-8")
        draft.meta |= {"about": about}


def save_model(encoder: TransformerEncoder, path: Path, about: dict[str, Any]) -> None:
    """A model directory, written whole or not at all."""
    parents = {"kg": about["kg"]}
    with (
        create(path, kind="model", version=1, parents=parents, overwrite=True) as draft,
        _system_errors(),
    ):
        save_encoder(encoder, draft.path, about=about)


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """Errors of the disk as Python has them; safetensors tells their number in words."""
    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def load_checkpoint(state: State, path: Path, config: TrainConfig, about: dict[str, Any]) -> None:
    """Put `state` back to where the checkpoint was made."""
    meta = open_artefact(path, kind=KIND, version=VERSION)
    if meta["about"] != about:
        changed = sorted(key for key in about if meta["about"].get(key) != about[key])
        raise ArtefactError(
            f"is of a run with another {' and another '.join(changed)}",
            where=path,
            remedy="Resume with the same, or train to another directory",
        )
    if load(path / "config.toml") != config:
        raise ArtefactError(
            "is of a run with other settings",
            where=path,
            remedy="Compare its config.toml. Resume with the same settings, or train to another "
            "directory",
        )
    tensors = load_file(path / "state.safetensors")
    progress = json.loads((path / "progress.json").read_text(encoding="utf-8"))
    model = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    state.encoder.model.load_state_dict(model)
    names = dict(state.encoder.named_parameters())
    if isinstance(state.table, LazyTable):
        state.table.load({n[6:]: t for n, t in tensors.items() if n.startswith("table.")})
    elif state.table is not None:
        names["relation"] = state.table
        state.table.data.copy_(tensors["table.values"])
    for name, tensor in tensors.items():
        if name.startswith("adam."):
            parameter, key = name[5:].rsplit(".", 1)
            target = names[parameter]
            device = target.device if key != "step" else torch.device("cpu")
            fused = bool(state.optimiser.defaults.get("fused"))
            state.optimiser.state[target][key] = tensor.to(target.device if fused else device)
    state.step = progress["step"]
    state.best = float("-inf") if progress["best"] is None else progress["best"]
    state.window, state.window_steps = progress["window"], progress["window_steps"]
    state.missed, state.evaluated = progress["missed"], progress["evaluated"]
    device = next(state.encoder.parameters()).device
    for name, tensor in tensors.items():
        if name.startswith("memory."):
            term, key = name.removeprefix("memory.").rsplit(".", 1)
            state.memory.setdefault(term, {})[key] = tensor.to(device)
    state.hard = tensors["hard"].numpy() if "hard" in tensors else None


def about_run(
    kg: KG,
    encoder: TransformerEncoder,
    store: TokenStore,
    extra: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None,
    teachers: Sequence[object],
    objective: str,
) -> dict[str, Any]:
    """What must be the same when a run is resumed, by the words that an error uses."""
    shapes = {name: tuple(values.shape) for name, values in encoder.model.state_dict().items()}
    drawn = b"".join(np.ascontiguousarray(part).tobytes() for part in extra or ())
    about = {
        "graph": kg.fingerprint,
        # Its weights come from the checkpoint, and its folder may have moved.
        "model": f"{Path(_name(encoder)).name} {_digest(repr(shapes).encode())}",
        "tokenizer or table of extra terms": f"{store.meta['parents']} {_digest(drawn)}",
        "choice of teachers": [str(teacher) for teacher in teachers],
    }
    return about | ({"objective": objective} if objective else {})


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
