"""How concepts are found for strings: a stage is a file here and a line in `STAGES`.

There are two kinds of stages. A stage that is certain gives *hits*: terms that are what the query
says, which come first. It may also *settle* a query: a settled query is not encoded, and nothing is
measured for it; what other certain stages find for it still counts. The other kind *measures*: it
gives rows with how near they are, and the ranking fuses what the stages measure, the cosine of the
meaning and the similarity of the letters. Where two stages measure the same, a row counts by the
better of their values.

Two stages look for nothing themselves. `abbreviation` has strings looked up with their
abbreviations written out, and `slip` knows a misspelt name among what the letters are like; what is
found so bears their name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from medcoder.registry import Registry

if TYPE_CHECKING:
    from medcoder.index import RowIndex
    from medcoder.kg import KG
    from medcoder.normalize.batch import Batch, Floats, Pairs
    from medcoder.normalize.custom_terms import CustomTerms
    from medcoder.normalize.stages.letters import Grams
    from medcoder.vectors import Vectors

STAGES = Registry(
    "stage",
    {
        "code": "medcoder.normalize.stages.codes:Codes",
        "exact": "medcoder.normalize.stages.exact:Exact",
        "abbreviation": "medcoder.normalize.stages.naming:Abbreviation",
        "slip": "medcoder.normalize.stages.naming:Slip",
        "dense": "medcoder.normalize.stages.dense:Dense",
        "ngram": "medcoder.normalize.stages.letters:Letters",
    },
)
CERTAIN = "exact"  # the calibration of answers that nothing was measured for

Measure = Literal["cosine", "similarity"]


@dataclass(frozen=True)
class Searched:
    """What stages search: the graph, its vectors, their index, the letters, a user's own terms."""

    kg: KG
    vectors: Vectors
    index: RowIndex
    grams: Grams
    custom_terms: CustomTerms


class Hits(NamedTuple):
    """What a stage is certain of."""

    terms: Sequence[dict[int, int]]  # of each query: the term by concept, best first
    settled: Collection[int] = ()  # positions of the queries that are done with


class Stage(Protocol):
    """What every stage says of itself."""

    name: ClassVar[str]  # as answers, files and options have it
    label: ClassVar[str]  # for people: a term was found ...
    justification: ClassVar[str]  # for SSSOM, a term of the semantic mapping vocabulary
    measure: ClassVar[Measure | None]  # of what it finds; None: it gives hits

    def __init__(self, searched: Searched) -> None: ...


class HitStage(Stage, Protocol):
    """A stage that is certain."""

    similarity: ClassVar[float | None]  # of the letters of its hits, where that is known

    def find(self, batch: Batch) -> Hits: ...


class LetterStage(Stage, Protocol):
    """A stage that compares letters."""

    def find(self, batch: Batch) -> Pairs: ...


class MeaningStage(Stage, Protocol):
    """A stage that compares the vectors of the queries (n, d)."""

    def find(self, batch: Batch, vectors: Floats) -> Pairs: ...


def load_stage(name: str) -> type[Stage]:
    """The class of a stage by its name."""
    stage: type[Stage] = STAGES.load(name)
    return stage


def stage_sets() -> list[tuple[str, ...]]:
    """The sets of stages that have a calibration: the certain ones with any that measure."""
    measuring = [name for name in STAGES if load_stage(name).measure]
    return [
        tuple(name for name in STAGES if name in chosen or name not in measuring)
        for count in range(len(measuring), -1, -1)
        for chosen in combinations(measuring, count)
    ]


def calibration_name(stages: Collection[str]) -> str:
    """Confidences rest on what is measured: "dense+ngram", "dense", "ngram", or "exact"."""
    measuring = [name for name in STAGES if name in stages and load_stage(name).measure]
    return "+".join(measuring) or CERTAIN
