"""Losses on a matrix of similarities. One file each: (S, positive, negative) -> one scalar.

A loss is one file and one line here. Its options are its keyword-only arguments, and settings read
them from there; `Annotated[float, "above 0"]` or "at least 0" says which values are good.
"""

from __future__ import annotations

from medcoder.registry import Registry

LOSSES = Registry(
    "loss",
    {
        "info_nce": "medcoder.model.losses.info_nce:info_nce",
        "multi_similarity": "medcoder.model.losses.multi_similarity:multi_similarity",
    },
    extras={"info_nce": "train", "multi_similarity": "train"},
)

__all__ = ["LOSSES"]
