"""Figures for any embedding or system: benches, what they compare, and one file of scores."""

from __future__ import annotations

from medcoder.evaluate.bench_runs import Outcome, Seen, choose_benches, describe_bench, run_benches
from medcoder.evaluate.benches import BENCHES
from medcoder.evaluate.benches.task import Bench, Card, Metric, Needed
from medcoder.evaluate.embeddings import EMBEDDINGS
from medcoder.evaluate.results import (
    Context,
    Embedding,
    Figure,
    Linker,
    Prediction,
    Ranked,
    Result,
    Score,
    Vectors,
    add_scores,
    read_scores,
)

__all__ = [
    "BENCHES",
    "EMBEDDINGS",
    "Bench",
    "Card",
    "Context",
    "Embedding",
    "Figure",
    "Linker",
    "Metric",
    "Needed",
    "Outcome",
    "Prediction",
    "Ranked",
    "Result",
    "Score",
    "Seen",
    "Vectors",
    "add_scores",
    "choose_benches",
    "describe_bench",
    "read_scores",
    "run_benches",
]
