"""Our models as they ship or were exported: no torch, only onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medcoder.artefact import META
from medcoder.bundled.models import bundled_models
from medcoder.encode import exported, load_exported
from medcoder.errors import ArtefactError
from medcoder.evaluate.protocols import Kind, Vectors
from medcoder.types import Encoder

_ABOUT = ("pooling", "max_length", "weights")  # what the folder says of itself


class ExportedEmbedding:
    """An exported encoder, whose vectors have length 1 already."""

    kind: Kind = "ours"

    def __init__(self, encoder: Encoder, *, name: str, about: dict[str, Any]) -> None:
        self.encoder = encoder
        self.name = name
        self.settings = {"runtime": "onnxruntime", "dimension": encoder.width, **about}

    @property
    def fingerprint(self) -> str:
        return self.encoder.fingerprint

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        return Vectors(self.encoder.encode(texts), np.ones(len(texts), np.bool_))


def load(target: str, *, name: str | None = None, threads: int | None = None) -> ExportedEmbedding:
    """A name of a shipped model, or an exported folder."""
    place = exported(target)
    if place is None:
        known = ", ".join(bundled_models()) or "none"
        raise ArtefactError(
            f"{target} is not an exported encoder: it has no {META}. "
            f"Shipped are: {known}. Make one with medcoder export"
        )
    encoder = load_exported(target, threads=threads)
    meta = json.loads((place / META).read_text(encoding="utf-8"))
    return ExportedEmbedding(
        encoder,
        name=name or Path(target).expanduser().absolute().name,
        about={key: meta[key] for key in _ABOUT if key in meta},
    )
