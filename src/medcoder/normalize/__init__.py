"""Strings to ranked concepts, with filters, abstention and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medcoder.normalize.normalizer import Normalizer

__all__ = ["Normalizer"]


def __getattr__(name: str) -> Any:
    """`Normalizer` is imported when asked for: it brings the encoder, and tables need none."""
    if name != "Normalizer":
        raise AttributeError(name)
    from medcoder.normalize.normalizer import Normalizer

    return Normalizer
