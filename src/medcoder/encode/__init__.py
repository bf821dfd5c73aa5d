"""Encoders that are at hand: exported ones, which need no torch, and Hugging Face checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

from medcoder.artefact import META
from medcoder.bundled.models import bundled_models
from medcoder.errors import ArtefactError, MissingExtra
from medcoder.registry import Registry
from medcoder.types import Encoder

ENCODERS = Registry(
    "backend of encoders",
    {
        "onnx": "medcoder.encode.onnx:OnnxEncoder",
        "torch": "medcoder.model.encoder:TransformerEncoder",
    },
    extras={"torch": "train"},
)
_ONNX = "onnx"  # folder of an exported encoder inside a model directory
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_CHECKPOINT = "config.json"  # what every Hugging Face checkpoint has


def exported(name_or_path: str | Path) -> Path | None:
    """The directory of the exported encoder that is meant, if one is."""
    folder = bundled_models().get(str(name_or_path)) or Path(name_or_path).expanduser()
    for place in (folder, folder / _ONNX):
        # What training leaves is an artefact too, but a Hugging Face checkpoint first.
        if (place / META).exists() and not (place / _CHECKPOINT).exists():
            return place
    return None


def load_encoder(name_or_path: str | Path, *, threads: int | None = None) -> Encoder:
    """The encoder of a bundled model, an exported directory, or a Hugging Face checkpoint.

    The last needs the extra `train`; a name that is no folder is looked up on the hub.
    `encode(texts)` gives a float32 array (n, d) of unit rows in the order of the texts.
    """
    place = exported(name_or_path)
    if place is not None:
        found: Encoder = ENCODERS.load("onnx").load(place, threads=threads)
        return found
    folder = Path(name_or_path).expanduser()
    if folder.exists() and not (folder / _CHECKPOINT).exists():
        raise ArtefactError(
            f"{folder} is not a model: it has neither {META} nor {_CHECKPOINT}. Check the path"
        )
    if not folder.exists() and not _HUB_NAME.fullmatch(str(name_or_path)):
        raise ArtefactError(f"there is no {folder}. Check the path")
    try:
        backend = ENCODERS.load("torch")
    except MissingExtra as error:
        known = ", ".join(bundled_models()) or "none"
        raise MissingExtra(
            f"{name_or_path} is not an exported encoder (there are: {known}), and loading a "
            f"Hugging Face checkpoint needs torch. {error}"
        ) from error
    loaded: Encoder = backend.load(folder if folder.exists() else name_or_path)
    return loaded
