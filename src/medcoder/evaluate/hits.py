"""Where a prediction is right."""

from __future__ import annotations

from medcoder.evaluate.base import Prediction


def right_at(prediction: Prediction) -> int | None:
    """The rank, from 1 on, of the first right answer; None if there is none.

    A concept may have several ids, and so may the gold: one in common is enough.
    """
    gold = set(prediction.gold.split("|"))
    for rank, concept in enumerate(prediction.concepts, 1):
        if gold.intersection(concept.split("|")):
            return rank
    return None
