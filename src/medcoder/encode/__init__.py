"""Exported encoders: strings to vectors without torch."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medcoder.artefact import META
from medcoder.bundled.models import bundled_models
from medcoder.errors import ArtefactError

if TYPE_CHECKING:
    from medcoder.encode.onnx import OnnxEncoder

CHECKPOINT = "config.json"  # what every Hugging Face checkpoint has
_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_OFF = ("1", "true", "yes")  # what onnxruntime takes for a yes; an empty one or "0" is a no
_ONNX = "onnx"  # folder of an exported encoder inside a model directory


def exported(name_or_path: str | Path) -> Path | None:
    """The directory of the exported encoder that is meant, if any is."""
    folder = bundled_models().get(str(name_or_path)) or Path(name_or_path).expanduser()
    for path in (folder, folder / _ONNX):
        # What training leaves is an artefact too, but a Hugging Face checkpoint first.
        if (path / META).exists() and not (path / CHECKPOINT).exists():
            return path
    return None


def load_onnxruntime(part: str = "") -> Any:
    """The library onnxruntime, or a part of it such as "quantization", with its telemetry off.

    It reads the switch when it is imported, so nothing in medcoder imports it in another way.
    What the environment said before does not count: "0" there is no consent of whoever uses
    medcoder, whose pages promise that nothing leaves.
    """
    off = os.environ.get(_TELEMETRY, "").lower() in _OFF
    os.environ[_TELEMETRY] = "1"  # warns once, and covers processes that this one starts
    if sys.modules.get("onnxruntime") is not None and not off:
        warnings.warn(
            f"onnxruntime was imported before medcoder, without {_TELEMETRY}=1: where it has "
            "telemetry, that is on. Set the variable before the import",
            RuntimeWarning,
            stacklevel=2,
        )
    return import_module(f"onnxruntime.{part}" if part else "onnxruntime")


def load_exported(name_or_path: str | Path, *, threads: int | None = None) -> OnnxEncoder:
    """The encoder of a bundled model or of an exported directory."""
    from medcoder.encode.onnx import OnnxEncoder

    path = exported(name_or_path)
    if path is None:
        raise ArtefactError(
            f"it is not an exported encoder: it has no {META}",
            where=name_or_path,
            remedy="Check the path, or make an encoder with: medcoder export",
        )
    return OnnxEncoder.load(path, threads=threads)
