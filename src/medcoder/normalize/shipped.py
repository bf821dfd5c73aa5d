"""The embedded default: the open graph with the shipped model, vectors and calibration."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from medcoder.artefact import fingerprint
from medcoder.default import REMEDY, default_kg, home
from medcoder.errors import ArtefactError, UsageError
from medcoder.kg import KG
from medcoder.normalize.build import VERSION, Progress, build, shipped_calibration
from medcoder.runtime import shipped
from medcoder.runtime.onnx import OnnxEncoder
from medcoder.vectors.embed import embed
from medcoder.vectors.seed import open_seed

DEFAULT_MODEL = "medcoder-all"
TERMS = "terms.tsv"
_SEED = "open.vectors.safetensors"


def default_model() -> Path:
    """Where the shipped model lies."""
    folder = shipped().get(DEFAULT_MODEL)
    if folder is None:
        raise ArtefactError(f"the model {DEFAULT_MODEL} is missing. Install medcoder again")
    return folder


def default_terms() -> Path:
    """The table of custom terms of the embedded index, whatever its version."""
    return home() / TERMS


def default_index(progress: Progress | None = None) -> Path:
    """The index of the embedded graph; the first call builds it, in some ten seconds."""
    folder = default_model()
    graph = default_kg(progress)
    path = home() / f"{graph.stem}-{DEFAULT_MODEL}-{VERSION}-{_key(folder)}.index"
    if not path.exists():
        try:
            _build(path, graph, folder, progress)
        except (OSError, UsageError) as error:
            if path.exists():  # another process was faster
                return path
            if isinstance(error, UsageError):
                raise
            reason = error.strerror or error
            raise UsageError(f"cannot keep an index in {home()} ({reason}). {REMEDY}") from error
    return path


def _key(folder: Path) -> str:
    """What of a shipped model the index is made of: the encoder and its calibration."""
    encoder = fingerprint(folder, kind="encoder")
    calibration = shipped_calibration(encoder)
    digest = hashlib.blake2b(encoder.encode(), digest_size=6)
    digest.update(calibration.read_bytes() if calibration else b"")
    return digest.hexdigest()


def _build(path: Path, graph: Path, folder: Path, progress: Progress | None) -> None:
    seed = folder.parent / f"{DEFAULT_MODEL}.{_SEED}"
    kg, encoder = KG.open(graph), OnnxEncoder.load(folder)
    # Of this process alone: on a fresh machine, several may start at once.
    place = path.with_name(f".{path.name}.{os.getpid()}.vectors")
    try:
        vectors = embed(
            kg, encoder, place, known=[open_seed(seed)] if seed.exists() else [], progress=progress
        )
        build(
            kg,
            encoder,
            path,
            kind="exact",
            vectors=vectors,
            calibration=shipped_calibration(encoder.fingerprint),
            progress=progress,
        )
    finally:
        for left in (place, place.with_name(f".{place.name}.embedding")):
            shutil.rmtree(left, ignore_errors=True)


__all__ = ["DEFAULT_MODEL", "default_index", "default_model", "default_terms"]
