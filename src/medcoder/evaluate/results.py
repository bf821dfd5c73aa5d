"""What benches, embeddings, systems and reports agree on, and what a run leaves on disk.

A bench gets a `Context` and an `Embedding` or `Linker`, and gives a `Result`. A run keeps its
figures in scores.jsonl and its predictions in predictions/EMBEDDING/BENCH.jsonl.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from medcoder.errors import InputError, UsageError
from medcoder.evaluate.benches import BENCHES
from medcoder.files import locked, replacing, write_text
from medcoder.tables.text import read_lines
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


# Scores

NAME = "scores.jsonl"


@dataclass(frozen=True, kw_only=True)
class Score:
    """A figure, what made it and of what."""

    embedding: str  # name of the row
    kind: str
    bench: str
    split: str
    metric: str
    value: float
    low: float
    high: float
    n: int
    coverage: float
    model: str  # fingerprint
    data: str  # fingerprint
    seconds: float  # of the whole bench
    made: str  # when, UTC
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.embedding, self.bench, self.split, self.metric


def read_scores(path: Path) -> list[Score]:
    """All lines of a file, or of the file in a folder; none if it is not there."""
    file = path / NAME if path.is_dir() else path
    if not file.exists():
        return []
    return [_score(file, row, text) for row, text in enumerate(read_lines(file), 1) if text.strip()]


def scores_of(folder: Path) -> list[Score]:
    """The scores of a run, of which there must be some."""
    scores = read_scores(folder)
    if not scores:
        raise InputError(
            "there are no scores", file=folder, remedy="Make them with: medcoder bench run"
        )
    return scores


def add_scores(path: Path, scores: Iterable[Score]) -> None:
    """Put these in: all lines of an embedding and bench among them are replaced at once."""
    new = list(scores)
    again = {(score.embedding, score.bench) for score in new}
    with locked(path):
        kept = [score for score in read_scores(path) if (score.embedding, score.bench) not in again]
        text = "".join(json.dumps(asdict(score), ensure_ascii=False) + "\n" for score in kept + new)
        write_text(path, text)


def _score(file: Path, row: int, text: str) -> Score:
    try:
        return Score(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise InputError(
            "it is not a line of scores",
            file=file,
            row=row,
            values=error,
            remedy="Remove the line, or the file, and run the bench again",
        ) from None


# Predictions

FOLDER = "predictions"
_UNSAFE = re.compile(r"[^\w.,=+ -]+")


def predictions_file(out: Path, embedding: str, bench: str) -> Path:
    """Where they lie; a name that is no file name is changed to one."""
    return out / FOLDER / (_UNSAFE.sub("_", embedding).strip(". ") or "_") / f"{bench}.jsonl"


def predictions_of(folder: Path, model: str, bench: str) -> Path:
    """The file of a model and a bench; for a name that is not there, an error with the nearest."""
    scores = scores_of(folder)
    models = list(dict.fromkeys(score.embedding for score in scores))
    if model not in models:
        near = get_close_matches(model, models, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UsageError(
            f"no model of {folder} is called {model!r}{hint} There are: {', '.join(models)}"
        )
    BENCHES.load(bench)  # an error that names those that there are
    file = predictions_file(folder, model, bench)
    if not file.exists():
        done = sorted({score.bench for score in scores if score.embedding == model})
        raise UsageError(
            f"there are no predictions of {model!r} on {bench}: it ran on {', '.join(done)}, and "
            "benches of pairs and types predict nothing"
        )
    return file


def write_predictions(file: Path, predictions: Iterable[Prediction]) -> None:
    """Replace the file by these, at once."""
    with replacing(file) as partial, partial.open("w", encoding="utf-8") as stream:
        for prediction in predictions:
            stream.write(json.dumps(prediction._asdict(), ensure_ascii=False) + "\n")


def read_predictions(file: Path) -> list[Prediction]:
    """All of a file."""
    if not file.exists():
        raise InputError(
            "there are no predictions",
            file=file,
            remedy="Make them with: medcoder bench run; scores of pairs and types have none",
        )
    return [
        _prediction(file, row, line) for row, line in enumerate(read_lines(file), 1) if line.strip()
    ]


def _prediction(file: Path, row: int, line: str) -> Prediction:
    try:
        entry: dict[str, Any] = json.loads(line)
        for name in ("concepts", "names", "scores"):
            entry[name] = tuple(entry[name])
        return Prediction(**entry)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            "it is not a prediction",
            file=file,
            row=row,
            values=error,
            remedy="Remove the file and run the bench again",
        ) from None


def right_at(prediction: Prediction) -> int | None:
    """The rank, from 1 on, of the first right answer; None if there is none.

    A concept may have several ids, and so may the gold: one in common is enough.
    """
    gold = set(prediction.gold.split("|"))
    for rank, concept in enumerate(prediction.concepts, 1):
        if gold.intersection(concept.split("|")):
            return rank
    return None
