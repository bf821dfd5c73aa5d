"""Training by dual contrastive learning. Importing the package imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medcoder.registry import Registry

if TYPE_CHECKING:
    from medcoder.train.loop import Evaluate, Neighbours, train

# What the loss of a step can be made of. A term is one file and one line here; its options are the
# keyword-only arguments of what makes it.
OBJECTIVE_TERMS = Registry(
    "term of the objective",
    {
        "synonyms": "medcoder.train.objective:Synonyms",
        "relations": "medcoder.train.objective:Relations",
        "teacher": "medcoder.train.objective.teacher:TeacherTerm",
        "names": "medcoder.train.objective.names:Names",
        "hold": "medcoder.train.objective.hold:Hold",
        "pairs": "medcoder.train.objective.pairs:Pairs",
    },
    extras=dict.fromkeys(("synonyms", "relations", "teacher", "names", "hold", "pairs"), "train"),
)

__all__ = ["OBJECTIVE_TERMS", "Evaluate", "Neighbours", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from medcoder.train import loop

    return getattr(loop, name)
