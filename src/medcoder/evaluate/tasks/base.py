"""What all tasks share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medcoder.evaluate.base import OOV, Context, Embedding, Figure, Linker
from medcoder.evaluate.card import Card, fingerprint
from medcoder.evaluate.metrics import Estimate, mean


@dataclass(frozen=True)
class Task:
    """A data card, checked before it is used."""

    card: Card

    def files(self, data: Path, context: Context) -> list[Path]:
        """All files that are read; checks them."""
        folder = self.card.check(data, pinned=context.pinned)
        places = (folder / needed.path for needed in self.card.files)
        return [place for place in places if place.is_file()]

    def found(self, data: Path, context: Context) -> bool:
        return self.card.found(data)

    def fingerprint(self, data: Path, context: Context) -> str:
        return fingerprint(self.card.place(data), self.files(data, context))

    def settings(self, context: Context) -> dict[str, Any]:
        return {}

    def accepts(self, system: Embedding | Linker) -> bool:
        return not isinstance(system, Linker)


def figure(split: str, metric: str, estimate: Estimate, n: int, *, coverage: float = 1.0) -> Figure:
    return Figure(split, metric, estimate.value, estimate.low, estimate.high, n, coverage)


def word_figures(
    system: Embedding | Linker, texts: Sequence[str], context: Context, *, split: str = "all"
) -> Iterator[Figure]:
    """The out-of-vocabulary rate of word vectors on what a bench asks; nothing for others.

    Terms with some known words have a vector all the same, so that coverage does not tell it.
    """
    if not hasattr(system, "missing"):
        return
    missing = system.missing(texts)
    if len(missing):
        rate = mean(missing, resamples=context.resamples, seed=context.seed)
        yield figure(split, OOV, rate, len(missing))
