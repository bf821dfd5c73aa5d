"""The trained parts: encoder, relations, losses. The only room, with `train`, that knows torch."""

from __future__ import annotations

from medcoder.registry import Registry

RELATIONS = Registry(
    "relation form",
    {
        "bilinear": "medcoder.model.relations:Bilinear",
        "diagonal": "medcoder.model.relations:Diagonal",
        "low-rank": "medcoder.model.relations:LowRank",
        "translation": "medcoder.model.relations:Translation",
    },
    extras=dict.fromkeys(("bilinear", "diagonal", "low-rank", "translation"), "train"),
)

__all__ = ["RELATIONS"]
