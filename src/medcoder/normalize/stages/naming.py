"""Stages that name how a string was read; they look for nothing themselves."""

from __future__ import annotations

from typing import ClassVar

from medcoder.normalize.batch import Batch
from medcoder.normalize.stages import Hits, Measure, Searched


class _Naming:
    """What is found for a string that was read so bears its name."""

    measure: ClassVar[Measure | None] = None
    similarity: ClassVar[float | None] = None

    def __init__(self, searched: Searched) -> None:
        """Nothing is searched."""

    def find(self, batch: Batch) -> Hits:
        return Hits([{} for _ in batch.texts])


class Abbreviation(_Naming):
    """Abbreviations are written out: see `medcoder.normalize.abbreviations`."""

    name: ClassVar[str] = "abbreviation"
    label: ClassVar[str] = "with its abbreviations written out"
    justification: ClassVar[str] = "semapv:BackgroundKnowledgeBasedMatching"


class Slip(_Naming):
    """A letter that is too much, missing, another, or swapped: see `medcoder.normalize.typos`."""

    name: ClassVar[str] = "slip"
    label: ClassVar[str] = "as it is, but for a slip in a word"
    justification: ClassVar[str] = "semapv:LexicalSimilarityThresholdMatching"
