"""Figures for any embedding: benches, the embeddings they compare, and one file of scores."""

from __future__ import annotations

from medcoder.evaluate.base import (
    Bench,
    Context,
    Embedding,
    Figure,
    Linker,
    Prediction,
    Ranked,
    Result,
    Vectors,
)
from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.scores import Score, add_scores, read_scores
from medcoder.registry import Registry

BENCHES = Registry(
    "bench",
    {
        "cadec": "medcoder.evaluate.benches.cadec:BENCH",
        "psytar": "medcoder.evaluate.benches.psytar:BENCH",
        "mantra": "medcoder.evaluate.benches.mantra:BENCH",
        "mantra_open": "medcoder.evaluate.benches.mantra_open:BENCH",
        "mcsm": "medcoder.evaluate.benches.mcsm:BENCH",
        "mcsm_mesh": "medcoder.evaluate.benches.mcsm_mesh:BENCH",
        "relcls": "medcoder.evaluate.benches.relcls:BENCH",
        "relcls_open": "medcoder.evaluate.benches.relcls_open:BENCH",
        "mayosrs": "medcoder.evaluate.benches.mayosrs:BENCH",
        "umnsrs-sim": "medcoder.evaluate.benches.umnsrs_sim:BENCH",
        "umnsrs-rel": "medcoder.evaluate.benches.umnsrs_rel:BENCH",
        "ehr-rela": "medcoder.evaluate.benches.ehr_rela:BENCH",
        "pairs": "medcoder.evaluate.benches.pairs:BENCH",
        "ncbi": "medcoder.evaluate.benches.ncbi:BENCH",
        "bc5cdr": "medcoder.evaluate.benches.bc5cdr:BENCH",
        "hpo_gsc": "medcoder.evaluate.benches.hpo_gsc:BENCH",
        "misspelling": "medcoder.evaluate.benches.misspelling:BENCH",
        "cases": "medcoder.evaluate.benches.cases:BENCH",
        "custom": "medcoder.evaluate.benches.custom:BENCH",
    },
)

EMBEDDINGS = Registry(
    "embedding",
    {
        "contextual": "medcoder.evaluate.embeddings.contextual:load",
        "exported": "medcoder.evaluate.embeddings.exported:load",
        "word": "medcoder.evaluate.embeddings.word:load",
        "concept": "medcoder.evaluate.embeddings.concept:load",
        "lexical": "medcoder.evaluate.embeddings.lexical:load",
    },
    extras={"contextual": "train", "lexical": "eval"},
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
    "Needed",
    "Prediction",
    "Ranked",
    "Result",
    "Score",
    "Vectors",
    "add_scores",
    "read_scores",
]
