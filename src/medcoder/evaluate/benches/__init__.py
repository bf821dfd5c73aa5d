"""Benches: a file for each task with the cards of its data sets, and a line here for each set."""

from __future__ import annotations

from medcoder.registry import Registry

BENCHES = Registry(
    "bench",
    {
        "cadec": "medcoder.evaluate.benches.corpora:CADEC",
        "psytar": "medcoder.evaluate.benches.corpora:PSYTAR",
        "mantra": "medcoder.evaluate.benches.mantra:MANTRA",
        "mantra_open": "medcoder.evaluate.benches.mantra:MANTRA_OPEN",
        "mcsm": "medcoder.evaluate.benches.mcsm:MCSM",
        "mcsm_mesh": "medcoder.evaluate.benches.mcsm:MCSM_MESH",
        "relcls": "medcoder.evaluate.benches.relations:RELCLS",
        "relcls_open": "medcoder.evaluate.benches.relations:RELCLS_OPEN",
        "mayosrs": "medcoder.evaluate.benches.similarity:MAYOSRS",
        "umnsrs-sim": "medcoder.evaluate.benches.similarity:UMNSRS_SIM",
        "umnsrs-rel": "medcoder.evaluate.benches.similarity:UMNSRS_REL",
        "ehr-rela": "medcoder.evaluate.benches.similarity:EHR_RELA",
        "pairs": "medcoder.evaluate.benches.similarity:PAIRS",
        "ncbi": "medcoder.evaluate.benches.corpora:NCBI",
        "bc5cdr": "medcoder.evaluate.benches.corpora:BC5CDR",
        "hpo_gsc": "medcoder.evaluate.benches.linking:HPO_GSC",
        "misspelling": "medcoder.evaluate.benches.linking:MISSPELLING",
        "cases": "medcoder.evaluate.benches.cases:CASES",
        "custom": "medcoder.evaluate.benches.linking:CUSTOM",
    },
)
