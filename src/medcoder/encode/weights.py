"""Weights of an exported encoder: float32, float16, or int8 with a scale for every 16 values.

They are stored small and used as float32: what is read is dequantised once, when loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from medcoder.errors import ArtefactError, UsageError

Precision = Literal["float32", "float16", "int8"]
_GROUP = 16  # values that share a scale: moves 0.9% of nearest neighbours; 64 moves 1.3%
_SCALE = ".scale"
_LARGEST = np.finfo(np.float16).max  # a model has larger values only to hide things with
Arrays = dict[str, npt.NDArray[Any]]


def save_weights(weights: Mapping[str, npt.NDArray[Any]], file: Path, precision: Precision) -> None:
    """Write the arrays by name. Only float arrays of two and more dimensions are made smaller."""
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise UsageError("no such precision", values=repr(precision), remedy=f"There are: {known}")
    stored: Arrays = {}
    for name, array in weights.items():
        array = np.asarray(array, order="C")  # a file knows no other
        large = array.ndim > 1 and array.dtype == np.float32
        large = large and np.abs(array).max(initial=0) <= _LARGEST
        if large and precision == "float16":
            stored[name] = array.astype(np.float16)
        elif large and precision == "int8" and array.size % _GROUP == 0:
            stored[name], stored[name + _SCALE] = quantise(array)
        else:
            stored[name] = array
    file.write_bytes(save(stored))  # `save_file` would keep others from reading it


def load_weights(file: Path) -> Arrays:
    """The arrays by name, in float32."""
    try:
        if not file.is_file():  # a pipe would be waited for
            raise ValueError("it is not a file")
        stored = load_file(file)
        whole = [name for name, array in stored.items() if array.dtype == np.int8]
        restored = {name: dequantise(stored.pop(name), stored.pop(name + _SCALE)) for name in whole}
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ArtefactError(
            "it cannot be read", where=file, values=error, remedy="Copy or export it again"
        ) from error
    for name, array in stored.items():
        restored[name] = array.astype(np.float32) if array.dtype == np.float16 else array
    return restored


def quantise(array: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Integers of the array's shape, and a scale for each 16 of them."""
    groups = array.reshape(-1, _GROUP)  # (g, 16)
    scales = (np.abs(groups).max(1) / 127).astype(np.float16)
    # Rounding may have made a scale smaller, and tiny ones zero: what is divided by must be both
    # what is stored and not zero.
    steps = np.maximum(scales.astype(np.float32), np.finfo(np.float16).smallest_subnormal)
    whole = np.clip(np.rint(groups / steps[:, None]), -127, 127)
    return whole.astype(np.int8).reshape(array.shape), scales


def dequantise(whole: npt.NDArray[np.int8], scales: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    groups = whole.reshape(-1, _GROUP).astype(np.float32)
    groups *= scales.astype(np.float32)[:, None]
    return groups.reshape(whole.shape)
