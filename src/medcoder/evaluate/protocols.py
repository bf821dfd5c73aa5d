"""What benches, embeddings, systems and reports agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from medcoder.types import Progress

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
OOV = "oov"  # metric of word vectors: share of the words that are asked for without a vector
Kind = Literal["contextual", "word", "concept", "lexical", "ours", "system"]


class Vectors(NamedTuple):
    """Vectors of some items, a row each."""

    rows: Any  # (n, d) unit rows: a float32 array, or a scipy CSR array; 0 where unknown
    known: Mask  # (n,) False where the embedding has no vector for the item


class Embedding(Protocol):
    """Strings, or concepts by id, to unit vectors.

    `corpus` is what a lexical space is fitted on: the terms of the dictionary. Others ignore it.
    `ids` has a concept's ids, joined by "|", for embeddings that are keyed by id; "" for none.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def settings(self) -> dict[str, Any]:
        """What a reader must know to repeat a figure: pooling, dimension, vocabulary size..."""
        ...

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors: ...


class Ranked(NamedTuple):
    """The best dictionary rows of each query, one of each concept, best first."""

    rows: Rows  # (q, k), -1 where there are no more
    scores: Floats  # (q, k), -inf there


@runtime_checkable
class Linker(Protocol):
    """A whole system, which ranks the entries of a dictionary by itself."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def settings(self) -> dict[str, Any]: ...

    def link(
        self, queries: Sequence[str], terms: Sequence[str], concepts: Sequence[str], k: int
    ) -> Ranked: ...


class Figure(NamedTuple):
    """One number of a bench. `split` is "all", or which part: "de", "de/EMEA", "unseen"."""

    split: str
    metric: str
    value: float  # shares as 0..1
    low: float  # bootstrap 95% interval; equal to value where there is none
    high: float
    n: int  # items that it is the mean of
    coverage: float = 1.0  # share of the items that the embedding knows


class Prediction(NamedTuple):
    """What one query got, for the analysis of errors."""

    query: str
    language: str
    split: str
    gold: str  # ids joined by "|"
    gold_names: str  # of the dictionary, joined by "; "
    concepts: tuple[str, ...]  # predicted, best first
    names: tuple[str, ...]
    scores: tuple[float, ...]
    seen: bool  # is a term of the training graph, but for case, accents and punctuation


@dataclass
class Context:
    """What a run hands to every bench."""

    progress: Progress | None = None
    seen: Callable[[str], bool] | None = None  # is it a term of the named training graph?
    resamples: int = 1000
    seed: int = 0
    pinned: bool = True  # only the very files that published figures are for
    options: dict[str, Any] = field(default_factory=dict)  # those of the run; a bench takes its own


class Result(NamedTuple):
    figures: list[Figure]
    predictions: Sequence[Prediction] = ()
