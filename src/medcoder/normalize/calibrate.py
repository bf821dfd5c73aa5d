"""From scores to probabilities, fitted on the graph itself.

Queries are drawn from the graph and asked of it with part of it hidden:
- a synonym, hidden, of a concept that has others: can be found, should be;
- a term as it is: finds itself, unless others bear the same name;
- a term with a misspelling;
- a term of a concept that is hidden as a whole: any answer is wrong;
- a term with its letters shuffled: any answer is wrong.
A logistic regression on how near the candidates are gives the confidence: one regression for
the best name, another for those after it. Half of the concepts are kept out of the fit; what
calibration reaches on them is stored beside it.

A confidence is of a name. Concepts that are found by the same name, such as a disease in
two vocabularies, do not compete: a name is right if any of them is meant, and all of them have its
confidence. Which of them it is, no string can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.normalize.batch import Candidate, Fusion, Search
from medcoder.normalize.calibration_queries import Query, draw
from medcoder.normalize.filters import Allowed, Filter, Filters
from medcoder.normalize.rank import Ranker
from medcoder.normalize.stages import STAGES, calibration_name, stage_sets
from medcoder.text import spoken
from medcoder.types import Encoder

Floats = npt.NDArray[np.float64]

FEATURES = (
    "score", "square", "cosine", "similarity", "margin", "lead", "both", "exact", "rivals",
    "known", "spelt", "one",
)  # fmt: skip
_RIDGE = 1e-5
_STEPS = 50
_NEAR_ZERO = 1e-9
_CERTAIN = 20  # log-odds that no confidence is beyond
_BINS = 10
_DIGITS = 6  # of scores, to be called equal
_ENOUGH = 30  # answers that show a precision
_TAUGHT = 5  # candidates of a query that are learnt from
_BATCH = 256  # queries at a time
_TOP = 5
_FUSIONS = [Fusion(gain, floor) for gain in (0.0, 0.5, 1.0, 2.0, 4.0) for floor in (0.4, 0.5, 0.6)]


def calibrate(
    ranker: Ranker, encoder: Encoder, count: int
) -> tuple[Fusion, dict[str, Calibration]]:
    """The fusion that suits the graph, and a calibration for each set of stages."""
    queries = draw(ranker, count)
    vectors = _vectors(ranker, encoder, queries)
    half = len(queries) // 2
    fusion = _best_fusion(ranker, queries[:half], vectors[:half])
    fitted = {}
    for stages in stage_sets():
        search = Search(top=_TOP, stages=stages, fusion=fusion, allowed=_answerable(ranker))
        asked = _ask(ranker, queries, vectors, search)
        fitted[calibration_name(stages)] = fit(asked[:half], asked[half:])
    return fusion, fitted


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Weights of the features, the threshold below which there is no match, and how good it is."""

    best: tuple[float, ...]  # weights of FEATURES, for the best name
    others: tuple[float, ...]  # for those after it
    threshold: float
    # On concepts that were kept out of the fit:
    error: float  # expected calibration error of the best name
    curve: tuple[tuple[float, float, float], ...]  # confidence, share answered, precision there
    reliability: tuple[tuple[float, float, int], ...]  # mean confidence, share right, queries
    queries: dict[str, int] = field(default_factory=dict)  # by kind, fit and held out together
    accuracy: dict[str, float] = field(default_factory=dict)  # best name right, by kind

    def confidences(self, candidates: Sequence[Candidate], first: int | None = None) -> Floats:
        """The probability of the name of each of the first candidates, given all of a query."""
        rows = features(candidates, first)
        confidences = _confidence(rows, np.array(self.others))
        confidences[:1] = _confidence(rows[:1], np.array(self.best))
        return confidences[leaders(candidates[:first])]

    def threshold_for(self, precision: float) -> float | None:
        """The least confidence at which the answers held out were this precise, or None.

        At least 30 answers must show it.
        """
        total = sum(count for _, _, count in self.reliability)
        fitting = [
            confidence
            for confidence, answered, reached in self.curve
            if reached >= precision and answered * total >= _ENOUGH
        ]
        return min(fitting, default=None)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Calibration:
        rows = {name: tuple(map(tuple, stored[name])) for name in ("curve", "reliability")}
        weights = {name: tuple(stored[name]) for name in ("best", "others")}
        if any(len(some) != len(FEATURES) for some in weights.values()):
            raise ValueError(f"it needs {len(FEATURES)} weights of each kind")
        if any(len(row) != 3 for some in rows.values() for row in some):
            raise ValueError("it needs rows of three numbers")
        numbers = [stored["threshold"], stored["error"], *chain(*weights.values())]
        numbers += chain(*rows["curve"], *rows["reliability"])
        for name in ("queries", "accuracy"):
            numbers += stored.get(name, {}).values()
        if not all(type(number) in (int, float) and isfinite(number) for number in numbers):
            raise ValueError("it needs finite numbers")
        return cls(**stored | rows | weights)


class Asked(NamedTuple):
    """A query with its candidates, best first, and the concept that was meant (None: hidden)."""

    kind: str
    candidates: Sequence[Candidate]
    concept: int | None

    @property
    def right(self) -> bool:
        """Whether a concept that bears the best name is meant."""
        pairs = zip(self.candidates, leaders(self.candidates), strict=True)
        return any(candidate.concept == self.concept for candidate, leader in pairs if leader == 0)


def features(candidates: Sequence[Candidate], first: int | None = None) -> Floats:
    """A row for each of the first candidates: how near it is, how far ahead of other names, and
    how many of them are as near.
    """
    rows = np.zeros((len(candidates[:first]), len(FEATURES)))
    scores = [round(candidate.score, _DIGITS) for candidate in candidates]
    names = leaders(candidates)
    ties = Counter(scores[leader] for leader in set(names))
    second = next((score for score, leader in zip(scores, names, strict=True) if leader), 0.0)
    for position, candidate in enumerate(candidates[:first]):
        margin = scores[position] - (scores[0] if names[position] else second)
        rows[position] = (
            candidate.score,
            candidate.score**2,
            candidate.cosine or 0.0,
            candidate.similarity or 0.0,
            margin,
            np.sqrt(max(margin, 0.0)),
            margin * candidate.score,
            candidate.hit,
            np.log(max(ties[scores[position]], 1)),
            candidate.known,
            candidate.spelt,
            1.0,
        )
    return rows


def leaders(candidates: Sequence[Candidate]) -> list[int]:
    """The position of the first candidate with the name of each; without a name, its own."""
    first: dict[str, int] = {}
    return [
        position if candidate.name is None else first.setdefault(candidate.name, position)
        for position, candidate in enumerate(candidates)
    ]


def fit(asked: Sequence[Asked], held_out: Sequence[Asked]) -> Calibration:
    """Fit on some queries, measure on others."""
    rows, right, first = _table(asked)
    best, others = _logistic(rows[first], right[first]), _logistic(rows[~first], right[~first])
    confidence, correct = _best(asked, best)
    threshold = _threshold(confidence, correct, sum(query.concept is not None for query in asked))
    confidence, correct = _best(held_out, best)
    everything = [*asked, *held_out]
    kinds = sorted({query.kind for query in everything})
    by_kind = {kind: [query for query in everything if query.kind == kind] for kind in kinds}
    return Calibration(
        best=tuple(best.tolist()),
        others=tuple(others.tolist()),
        threshold=threshold,
        error=calibration_error(confidence, correct),
        curve=risk_coverage(confidence, correct),
        reliability=reliability(confidence, correct),
        queries={kind: len(some) for kind, some in by_kind.items()},
        accuracy={
            kind: round(sum(query.right for query in some) / len(some), 4)
            for kind, some in by_kind.items()
            if any(query.concept is not None for query in some)
        },
    )


def reliability(confidence: Floats, correct: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
    """Ten bins of equal width: mean confidence, share that was right, number."""
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    rows = []
    for number in range(_BINS):
        inside = bins == number
        if inside.any():
            mean, share = float(confidence[inside].mean()), float(correct[inside].mean())
            rows.append((mean, share, int(inside.sum())))
    return tuple(rows)


def calibration_error(confidence: Floats, correct: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error over ten bins."""
    bins = reliability(confidence, correct)
    gaps = [abs(mean - share) * count for mean, share, count in bins]
    return float(sum(gaps) / max(len(confidence), 1))


def risk_coverage(confidence: Floats, correct: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
    """What answering only above a confidence gives: confidence, share answered, precision."""
    order = np.argsort(-confidence, kind="stable")
    ranked, hits = confidence[order], np.cumsum(correct[order])
    last = _last(ranked)
    chosen = last[np.unique(np.linspace(0, len(last) - 1, 200).astype(int))] if len(last) else last
    return tuple(
        (float(ranked[rank]), (rank + 1) / len(order), float(hits[rank] / (rank + 1)))
        for rank in chosen.tolist()
    )


def _table(
    asked: Sequence[Asked],
) -> tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Features of the first names of all queries, which are right, and which come first."""
    rows, right, first = [np.zeros((0, len(FEATURES)))], [], []
    for query in asked:
        leading = leaders(query.candidates)
        meant = {
            leader
            for candidate, leader in zip(query.candidates, leading, strict=True)
            if candidate.concept == query.concept
        }
        names = [leader for leader in sorted(set(leading)) if leader < _TAUGHT]
        rows.append(features(query.candidates, _TAUGHT)[names])
        right += [name in meant for name in names]
        first += [name == 0 for name in names]
    return np.concatenate(rows), np.array(right, np.bool_), np.array(first, np.bool_)


def _best(asked: Sequence[Asked], weights: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Confidence in the best name of each query with candidates, and whether it is right."""
    some = [query for query in asked if query.candidates]
    rows = np.array([features(query.candidates, 1)[0] for query in some]).reshape(-1, len(FEATURES))
    return _confidence(rows, weights), np.array([query.right for query in some], np.bool_)


def _threshold(confidence: Floats, correct: npt.NDArray[np.bool_], answerable: int) -> float:
    """Where the harmonic mean of precision and recall is best: amid what to answer and what not."""
    order = np.argsort(-confidence, kind="stable")
    ranked, hits = confidence[order], np.cumsum(correct[order])
    last = _last(ranked)
    if not len(last):
        return 0.5
    harmonic = 2 * hits[last] / (last + 1 + max(answerable, 1))
    chosen = int(last[int(harmonic.argmax())])
    least, below = float(ranked[chosen]), float(np.append(ranked, 0.0)[chosen + 1])
    middle = (least + below) / 2
    return middle if middle > below else least  # of neighbours, the middle may be the lower


def _last(ranked: Floats) -> npt.NDArray[np.intp]:
    """The last position of each run of equal confidences: they stand or fall together."""
    return np.flatnonzero(np.diff(ranked, append=-1))


def _logistic(rows: Floats, right: npt.NDArray[np.bool_]) -> Floats:
    """Newton's method on the log-likelihood with a small ridge."""
    weights, total = np.zeros(rows.shape[1]), max(len(rows), 1)
    for _ in range(_STEPS):
        likely = _sigmoid(rows @ weights)
        slope = rows.T @ (likely - right) / total + _RIDGE * weights
        spread = rows.T * (likely * (1 - likely)) @ rows / total
        step = np.linalg.solve(spread + _RIDGE * np.eye(len(weights)), slope)
        before = _loss(rows, right, weights)
        # Where right and wrong are far apart, a whole step may lead far beyond the best.
        while np.abs(step).max() >= _NEAR_ZERO and _loss(rows, right, weights - step) > before:
            step /= 2
        weights -= step
        if np.abs(step).max() < _NEAR_ZERO:
            break
    return weights


def _loss(rows: Floats, right: npt.NDArray[np.bool_], weights: Floats) -> float:
    values = rows @ weights
    unlikely = np.logaddexp(0, values) - right * values
    return float(unlikely.sum() / max(len(rows), 1) + _RIDGE / 2 * weights @ weights)


def _confidence(rows: Floats, weights: Floats) -> Floats:
    """Rounded, so that what lies on the threshold does not fall by how a sum was rounded."""
    confidence: Floats = np.round(_sigmoid(np.clip(rows @ weights, -_CERTAIN, _CERTAIN)), 9)
    return confidence


def _sigmoid(values: Floats) -> Floats:
    likely: Floats = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return likely


def _best_fusion(
    ranker: Ranker, queries: Sequence[Query], vectors: npt.NDArray[np.float32]
) -> Fusion:
    """The fusion that is best for the kinds of queries on average; if equal, that of least gain.

    Candidates are found once and put in order anew for each.
    """
    search = Search(top=_TOP, stages=tuple(STAGES), fusion=Fusion(), allowed=_answerable(ranker))
    asked = [query for query in _ask(ranker, queries, vectors, search) if query.concept is not None]
    kinds = Counter(query.kind for query in asked)
    hits = {
        fusion: sum(_right(query, fusion) / kinds[query.kind] for query in asked)
        for fusion in _FUSIONS
    }
    return max(hits, key=lambda fusion: (hits[fusion], -fusion.gain, fusion.floor))


def _answerable(ranker: Ranker) -> Allowed | None:
    """All but headings."""
    return Filters(ranker.kg, ranker.vectors).allowed(Filter())


def _right(query: Asked, fusion: Fusion) -> bool:
    if not query.candidates or query.candidates[0].hit:
        return query.right

    def score(some: Candidate) -> float:
        return fusion.score(some.cosine, some.similarity, known=some.known, spelt=some.near)

    # Concepts of the same name have the same score: see above.
    meant = [score(some) for some in query.candidates if some.concept == query.concept]
    return bool(meant) and max(meant) >= max(map(score, query.candidates))


def _ask(
    ranker: Ranker,
    queries: Sequence[Query],
    vectors: npt.NDArray[np.float32],
    search: Search,
) -> list[Asked]:
    asked = []
    for start in range(0, len(queries), _BATCH):
        some = queries[start : start + _BATCH]
        answers = ranker.find(
            [query.text for query in some],
            vectors[start : start + _BATCH].__getitem__,
            search,
            without=[query.hidden for query in some],
        )
        asked += [
            Asked(query.kind, candidates, query.meant)
            for query, candidates in zip(some, answers, strict=True)
        ]
    return asked


def _vectors(ranker: Ranker, encoder: Encoder, queries: Sequence[Query]) -> npt.NDArray[np.float32]:
    """Vectors of the queries; those of terms are there already."""
    rows = np.array([query.row for query in queries], np.int64)
    vectors = ranker.vectors.take(np.maximum(rows, 0))
    new = np.flatnonzero(rows < 0)
    if len(new):
        texts = [spoken(queries[position].text) for position in new.tolist()]
        vectors[new] = encoder.encode(texts)
    return vectors
