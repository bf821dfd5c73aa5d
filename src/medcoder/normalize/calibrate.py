"""How sure to be: the weights of the ranking, and what they reached on strings kept out.

Weights come with the package, fitted on strings of people and on several terminologies (see
recipes/ranker). Where another model made the vectors, they are fitted to the graph itself: queries
are drawn from it and asked with part of it hidden.
- a synonym, hidden, of a concept that has others: can be found, should be;
- a term as it is: finds itself, unless others bear the same name;
- a term with a misspelling;
- a term of a concept that is hidden as a whole: any answer is wrong;
- a term with its letters shuffled: any answer is wrong.
Half of the concepts are kept out of the fit; what is reached on them is stored beside the weights.

A confidence is of a name. Concepts that are found by the same name, such as a disease in
two vocabularies, do not compete: a name is right if any of them is meant, and all of them have its
confidence. Which of them it is, no string can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.normalize.batch import Candidate, Fusion, Search
from medcoder.normalize.calibration_queries import Query, draw
from medcoder.normalize.choices import choices, leaders, relatives
from medcoder.normalize.filters import Allowed, Filter, Filters
from medcoder.normalize.fitting import Example, fit
from medcoder.normalize.interpretations import Interpretation
from medcoder.normalize.rank import Ranker
from medcoder.normalize.stages import STAGES, calibration_name, stage_sets
from medcoder.normalize.weights import Weights
from medcoder.text import spoken
from medcoder.types import Encoder

Floats = npt.NDArray[np.float64]

_BINS = 10
_MORE_LIKELY = 0.5  # right than wrong: no threshold is below
_ENOUGH = 30  # answers that show a precision
_BATCH = 256  # queries at a time
_TOP = 5
_FUSIONS = [Fusion(gain, floor) for gain in (0.0, 0.5, 1.0, 2.0, 4.0) for floor in (0.4, 0.5, 0.6)]


def calibrate(
    ranker: Ranker, encoder: Encoder, count: int, start: Mapping[str, Calibration]
) -> tuple[Fusion, dict[str, Calibration]]:
    """The fusion that suits the graph, and a calibration for each set of stages.

    start: what comes with the package, which a small graph moves but a little
    """
    queries = draw(ranker, count)
    vectors = _vectors(ranker, encoder, queries)
    half = len(queries) // 2
    fusion = _best_fusion(ranker, queries[:half], vectors[:half])
    fitted = {}
    for stages in stage_sets():
        search = Search(top=_TOP, stages=stages, fusion=fusion, allowed=_answerable(ranker))
        examples = _examples(ranker, _ask(ranker, queries, vectors, search))
        name = calibration_name(stages)
        learnt = [some for some in examples[:half] if some is not None]
        weights = fit(learnt, start=start[name].weights if name in start else None)
        kept_out = [some for some in examples[half:] if some is not None]
        pairs = zip(queries[half:], examples[half:], strict=True)
        nothing = [query for query, some in pairs if some is None]
        judged = judge(weights, kept_out)
        fitted[name] = Calibration.measured(weights, kept_out, *judged, nothing=nothing)
    return fusion, fitted


def drawn_examples(
    ranker: Ranker, encoder: Encoder, count: int, stages: Sequence[str], fusion: Fusion
) -> list[tuple[Query, Example | None]]:
    """Queries drawn from a graph, as examples; None where nothing was found."""
    queries = draw(ranker, count)
    vectors = _vectors(ranker, encoder, queries)
    search = Search(top=_TOP, stages=stages, fusion=fusion, allowed=_answerable(ranker))
    examples = _examples(ranker, _ask(ranker, queries, vectors, search))
    return list(zip(queries, examples, strict=True))


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Weights, the threshold below which there is no match, and how good it is."""

    weights: Weights
    threshold: float
    # On concepts that were kept out of the fit:
    error: float  # expected calibration error of the best name
    curve: tuple[tuple[float, float, float], ...]  # confidence, share answered, precision there
    reliability: tuple[tuple[float, float, int], ...]  # mean confidence, share right, queries
    queries: dict[str, int] = field(default_factory=dict)  # by kind
    accuracy: dict[str, float] = field(default_factory=dict)  # best name right, by kind

    @classmethod
    def measured(
        cls,
        weights: Weights,
        examples: Sequence[Example],
        confidence: Floats,
        correct: npt.NDArray[np.bool_],
        *,
        nothing: Sequence[Query] = (),
    ) -> Calibration:
        """Weights with what they reached on examples that were kept out of their fit.

        nothing: queries for which nothing was found
        """
        queries = Counter([*(some.kind for some in examples), *(some.kind for some in nothing)])
        able = Counter(some.kind for some in examples if some.answerable)
        able.update(some.kind for some in nothing if some.meant is not None)
        pairs = zip(examples, correct.tolist(), strict=True)
        right = Counter(some.kind for some, is_right in pairs if is_right and some.answerable)
        return cls(
            weights=weights,
            threshold=_threshold(confidence, correct, able.total()),
            error=calibration_error(confidence, correct),
            curve=risk_coverage(confidence, correct),
            reliability=reliability(confidence, correct),
            queries=dict(sorted(queries.items())),
            accuracy={kind: round(right[kind] / able[kind], 4) for kind in sorted(able)},
        )

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
        return asdict(self) | {"weights": self.weights.as_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Calibration:
        rows = {name: tuple(map(tuple, stored[name])) for name in ("curve", "reliability")}
        if any(len(row) != 3 for some in rows.values() for row in some):
            raise ValueError("it needs rows of three numbers")
        numbers = [stored["threshold"], stored["error"], *chain(*rows["curve"])]
        numbers += chain(*rows["reliability"])
        for name in ("queries", "accuracy"):
            numbers += stored.get(name, {}).values()
        if not all(type(number) in (int, float) and isfinite(number) for number in numbers):
            raise ValueError("it needs finite numbers")
        weights = Weights.from_dict(stored["weights"])
        return cls(**dict(stored) | rows | {"weights": weights})


class Asked(NamedTuple):
    """A query with its candidates, best first, and the concept that was meant (None: hidden)."""

    query: Query
    candidates: Sequence[Candidate]

    @property
    def right(self) -> bool:
        """Whether a concept that bears the best name is meant."""
        pairs = zip(self.candidates, leaders(self.candidates), strict=True)
        meant = self.query.meant
        return any(some.concept == meant for some, leader in pairs if leader == 0)


def judge(weights: Weights, examples: Sequence[Example]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Confidence in the best of each example, and whether it is right."""
    confidence, correct = [], []
    for some in examples:
        ranked = weights.rank(some.choices)
        confidence.append(float(ranked.confidences[0]))
        correct.append(bool(some.right[ranked.order[0]]))
    return np.array(confidence), np.array(correct, np.bool_)


def _examples(ranker: Ranker, asked: Sequence[Asked]) -> list[Example | None]:
    """What there is to learn from queries; None where nothing was found."""
    kin = relatives(ranker.kg)
    examples: list[Example | None] = []
    for query, candidates in asked:
        ranked = {query.text: candidates}
        found = choices(query.text, [Interpretation(query.text)], ranked, kin)
        if found is None:
            examples.append(None)
            continue
        names = leaders(found.candidates)
        meant = {
            leader
            for some, leader in zip(found.candidates, names, strict=True)
            if some.concept == query.meant
        }
        right = np.array([leader in meant for leader in names], np.bool_)
        examples.append(Example(found, right, query.kind, answerable=query.meant is not None))
    return examples


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


def _threshold(confidence: Floats, correct: npt.NDArray[np.bool_], answerable: int) -> float:
    """Where the harmonic mean of precision and recall is best: amid what to answer and what not.

    What is more likely wrong than right is no answer.
    """
    order = np.argsort(-confidence, kind="stable")
    ranked, hits = confidence[order], np.cumsum(correct[order])
    last = _last(ranked)
    if not len(last):
        return _MORE_LIKELY
    harmonic = 2 * hits[last] / (last + 1 + max(answerable, 1))
    chosen = int(last[int(harmonic.argmax())])
    least, below = float(ranked[chosen]), float(np.append(ranked, 0.0)[chosen + 1])
    middle = (least + below) / 2
    # Of neighbours, the middle may be the lower.
    return max(middle if middle > below else least, _MORE_LIKELY)


def _last(ranked: Floats) -> npt.NDArray[np.intp]:
    """The last position of each run of equal confidences: they stand or fall together."""
    return np.flatnonzero(np.diff(ranked, append=-1))


def _best_fusion(
    ranker: Ranker, queries: Sequence[Query], vectors: npt.NDArray[np.float32]
) -> Fusion:
    """The fusion that is best for the kinds of queries on average; if equal, that of least gain.

    Candidates are found once and put in order anew for each.
    """
    search = Search(top=_TOP, stages=tuple(STAGES), fusion=Fusion(), allowed=_answerable(ranker))
    asked = [
        some for some in _ask(ranker, queries, vectors, search) if some.query.meant is not None
    ]
    kinds = Counter(some.query.kind for some in asked)
    hits = {
        fusion: sum(_right(some, fusion) / kinds[some.query.kind] for some in asked)
        for fusion in _FUSIONS
    }
    return max(hits, key=lambda fusion: (hits[fusion], -fusion.gain, fusion.floor))


def _answerable(ranker: Ranker) -> Allowed | None:
    """All but headings."""
    return Filters(ranker.kg, ranker.vectors).allowed(Filter())


def _right(asked: Asked, fusion: Fusion) -> bool:
    if not asked.candidates or asked.candidates[0].hit:
        return asked.right

    def score(some: Candidate) -> float:
        return fusion.score(some.cosine, some.similarity, known=some.known, spelt=some.near)

    # Concepts of the same name have the same score: see above.
    meant = [score(some) for some in asked.candidates if some.concept == asked.query.meant]
    return bool(meant) and max(meant) >= max(map(score, asked.candidates))


def _ask(
    ranker: Ranker,
    queries: Sequence[Query],
    vectors: npt.NDArray[np.float32],
    search: Search,
) -> list[Asked]:
    asked: list[Asked] = []
    for start in range(0, len(queries), _BATCH):
        some = queries[start : start + _BATCH]
        answers = ranker.find(
            [query.text for query in some],
            vectors[start : start + _BATCH].__getitem__,
            search,
            without=[query.hidden for query in some],
        )
        asked += map(Asked, some, answers)
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
