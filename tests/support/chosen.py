"""Candidates with given features, what they are among each other, and weights for them."""

import numpy as np

from medcoder.normalize.batch import Candidate
from medcoder.normalize.choices import Relatives, choices
from medcoder.normalize.features import COLUMN, FEATURES
from medcoder.normalize.interpretations import Interpretation
from medcoder.normalize.weights import CONFIDENCE, ORDER, Weights


def found(concept, *, called=None, term=None, stage="dense", known=True, **features):
    """A candidate that is found by a name; features that are not given are 0."""
    values = np.zeros(len(FEATURES), np.float32)
    for feature, value in features.items():
        values[COLUMN[feature]] = value
    certain = bool(features.get("certain"))
    return Candidate(
        concept, concept if term is None else term, "exact" if certain else stage,
        score=1.0 if certain else float(values[COLUMN["cosine"]]), known=known, name=called,
        hit=certain, features=values,
    )  # fmt: skip


def kin(*, few=0.0, category=None, neighbours=None):
    """Concepts of given categories (else each its own), and given neighbours."""
    groups, near = category or {}, neighbours or {}
    return Relatives(
        few,
        lambda concept: groups.get(concept, f"={concept}"),
        lambda concept: frozenset(near.get(concept, ())),
    )


def chosen(*candidates, text="some words", **relatives):
    """The choices of a string that is read in one way."""
    return choices(text, [Interpretation(text)], {text: candidates}, kin(**relatives))


def weights(order=None, confidence=None, base=0.0, usual=()):
    """Weights by feature: one for all of its ramps, or one for each; 0 where none is given."""

    def listed(used, given):
        values = []
        for ramps in used:
            some = given.get(ramps.feature, 0.0)
            count = len(ramps.knots) - 1
            values += some if isinstance(some, list) else [float(some)] * count
        return tuple(values)

    return Weights(
        order=listed(ORDER, order or {}), confidence=listed(CONFIDENCE, confidence or {}),
        base=base, usual=tuple(usual),
    )  # fmt: skip
