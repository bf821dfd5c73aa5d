"""From an exported encoder to a folder that transformers and sentence-transformers open."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from safetensors.numpy import save
from tokenizers import Tokenizer

from medcoder.artefact import create, open_artefact
from medcoder.bundled.models import bundled_models
from medcoder.encode import CHECKPOINT, exported, load_exported
from medcoder.encode.bert import restore_bert
from medcoder.encode.modules import write_modules
from medcoder.encode.onnx import GRAPH, KIND, TOKENIZER, VERSION, WEIGHTS
from medcoder.errors import ArtefactError, UsageError
from medcoder.files import write_json
from medcoder.registry import unknown

Precision = Literal["float32", "float16"]
_SPECIAL = ("pad", "unk", "cls", "sep", "mask")  # tokens of a BERT, written as [PAD]


def save_exported(
    name: str | Path, path: str | Path, *, weights: Precision = "float32", overwrite: bool = False
) -> Path:
    """Write a bundled model, or an exported one, as a folder of Hugging Face; needs no torch.

    `SentenceTransformer(path)`, `AutoModel.from_pretrained(path)` and `medcoder train --init path`
    open it. It must be a BERT.

    weights: "float32", or "float16", which is half as large and is float32 again when loaded
    """
    if weights not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise UsageError("no such precision", values=repr(weights), remedy=f"There are: {known}")
    folder = exported(name)
    if folder is None:
        if not Path(name).expanduser().exists():
            raise unknown("model", str(name), sorted(bundled_models()))
        folder = load_exported(name).path  # says what is wrong
    meta = open_artefact(folder, kind=KIND, version=VERSION, needs=(GRAPH, TOKENIZER))
    if meta["pooling"] not in ("cls", "mean"):
        raise UsageError(
            "sentence-transformers does not know its pooling",
            where=folder,
            values=meta["pooling"],
            remedy="Use the checkpoint that it was exported from",
        )
    config, arrays = restore_bert(folder / GRAPH, folder / WEIGHTS)
    largest = max(float(np.abs(array).max()) for array in arrays.values())
    if largest > float(np.finfo(weights).max):
        raise UsageError(
            "a weight is too large for this precision",
            where=folder,
            values=f"{largest:.3g} in {weights}",
            remedy="Use float32",
        )
    tokenizer, tokens = _tokenizer(folder / TOKENIZER, config["vocab_size"], meta["max_length"])
    # Not used here: Hugging Face would make one up at random, and say that it must be trained.
    width = config["hidden_size"]
    arrays["pooler.dense.weight"] = np.zeros((width, width), np.float32)
    arrays["pooler.dense.bias"] = np.zeros(width, np.float32)
    about = {"made_by": f"medcoder {version('medcoder')}", "encoder": meta["fingerprint"]}
    about |= {key: meta[key] for key in ("name", "released") if key in meta}

    path = Path(path).expanduser()
    parents = {"encoder": meta["fingerprint"]}
    with create(path, kind="model", version=1, parents=parents, overwrite=overwrite) as draft:
        stored = {key: array.astype(weights) for key, array in sorted(arrays.items())}
        # `save_file` would keep others from reading it.
        (draft.path / "model.safetensors").write_bytes(save(stored, {"format": "pt"}))
        # Loaded as float32, whatever is stored.
        write_json(draft.path / CHECKPOINT, config | tokens | {"dtype": "float32"})
        shutil.copyfile(folder / TOKENIZER, draft.path / TOKENIZER)
        write_json(draft.path / "tokenizer_config.json", tokenizer)
        write_modules(
            draft.path,
            width=width,
            pooling=meta["pooling"],
            max_length=meta["max_length"],
            about=about,
        )
        draft.meta["made_by"] = about["made_by"]
    return path


def _tokenizer(file: Path, pieces: int, longest: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What tokenizer_config.json says of a tokenizer, and what config.json does."""
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library has no error of its own for a bad file
        raise ArtefactError(
            "it cannot be read", where=file, values=error, remedy="Copy or export it again"
        ) from error
    special = {name: f"[{name.upper()}]" for name in _SPECIAL}
    numbers = {name: tokenizer.token_to_id(token) for name, token in special.items()}
    last = max(tokenizer.get_vocab().values(), default=0)
    missing = [special[name] for name in ("pad", "unk", "cls", "sep") if numbers[name] is None]
    if missing or last >= pieces:
        raise ArtefactError(
            "it is not the tokenizer of a BERT",
            where=file,
            values=missing or f"it has a piece {last:,}, the model has {pieces:,}",
            remedy="Use the checkpoint that it was exported from",
        )
    names = {f"{name}_token": special[name] for name in _SPECIAL if numbers[name] is not None}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}
    return config | names, {"pad_token_id": numbers["pad"]}
