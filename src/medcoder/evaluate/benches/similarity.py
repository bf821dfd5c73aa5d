"""Similarity: do cosines rank pairs of terms as people do?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medcoder.errors import InputError
from medcoder.evaluate.benches.task import (
    Card,
    Metric,
    Needed,
    Task,
    figure,
    word_figures,
)
from medcoder.evaluate.metrics import Reals, spearman
from medcoder.evaluate.ranking import distinct_texts, embed
from medcoder.evaluate.results import Context, Embedding, Figure, Linker, Result, Vectors
from medcoder.tables.text import read_columns

SPEARMAN = Metric("spearman", unit="")  # by convention times 100
COLUMNS = ("term1", "term2", "score")


class Pair(NamedTuple):
    """Two terms, their ids if known, and how alike people find them."""

    left: str
    right: str
    score: float
    left_id: str
    right_id: str


@dataclass(frozen=True)
class Similarity(Task):
    """Spearman's correlation of cosines with the judgement of people.

    Pairs with a term that has no vector are left out, and coverage says how many are in.
    """

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        assert not isinstance(system, Linker)
        [file] = self.files(data, context)
        return Result(pair_figures("all", read_pairs(file), system, context))


def pair_figures(
    split: str, pairs: Sequence[Pair], system: Embedding, context: Context
) -> list[Figure]:
    """The correlation, where at least two pairs have vectors, and words that have none."""
    keyed = system.kind == "concept"
    keys = [(pair.left, pair.left_id) for pair in pairs]
    keys += [(pair.right, pair.right_id) for pair in pairs]
    _, places = distinct_texts([key[1] if keyed else key[0] for key in keys])
    chosen = [keys[first] for first in np.unique(places, return_index=True)[1]]
    texts = [text for text, _ in chosen]
    vectors = embed(
        system,
        texts,
        ids=[identifier for _, identifier in chosen] if keyed else None,
        corpus=texts,
        progress=context.progress,
    )
    left, right = places[: len(pairs)], places[len(pairs) :]
    known = vectors.known[left] & vectors.known[right]
    words = list(word_figures(system, [key[0] for key in keys], context, split=split))
    if known.sum() < 2:
        return words
    estimate = spearman(
        _cosines(vectors, left[known], right[known]),
        np.array([pair.score for pair in pairs])[known],
        resamples=context.resamples,
        seed=context.seed,
    )
    correlation = figure(
        split, "spearman", estimate, int(known.sum()), coverage=float(known.mean())
    )
    return [correlation, *words]


def _cosines(vectors: Vectors, left: Any, right: Any) -> Reals:
    product = vectors.rows[left] * vectors.rows[right]
    return np.asarray(product.sum(axis=1), dtype=np.float64).ravel()


def read_pairs(file: Path) -> list[Pair]:
    rows = read_columns(file, COLUMNS, optional=("id1", "id2"))
    return [
        Pair(left, right, _number(file, row, score), left_id, right_id)
        for row, (left, right, score, left_id, right_id) in enumerate(rows, 2)
    ]


def _number(file: Path, row: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"the score {text!r} is not a number",
            file=file,
            row=row,
            remedy="Write it with a point, as in 6.69",
        ) from None


@dataclass(frozen=True)
class Pairs(Similarity):
    """All tables of a folder."""

    def files(self, data: Path, context: Context) -> list[Path]:
        folder = data / self.card.name
        files = sorted(folder.glob("*.tsv"))
        if not files:
            raise InputError(
                "there are no tables of pairs",
                file=folder,
                remedy="Put NAME.tsv there, with the columns term1, term2 and score",
            )
        return files

    def has_data(self, data: Path, context: Context) -> bool:
        return any((data / self.card.name).glob("*.tsv"))

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        assert not isinstance(system, Linker)
        return Result(
            [
                figure
                for file in self.files(data, context)
                for figure in pair_figures(file.stem, read_pairs(file), system, context)
            ]
        )


# Benches

MAYOSRS = Similarity(
    Card(
        name="mayosrs",
        title="MayoSRS",
        about=(
            "101 pairs of clinical terms, their relatedness judged by nine medical coders "
            "and three physicians."
        ),
        origin=(
            "test/mayosrs of GanjinZero/CODER on GitHub, or the authors at the University of "
            "Minnesota"
        ),
        licence="free for research",
        files=(
            Needed(
                path="mayosrs.tsv",
                columns=COLUMNS,
                rows=101,
                sha256="156e51a2d9bd9f7bebb36ce7c70505d7f79544a5a163de16745ab729b4cfefb7",
            ),
        ),
        folder="similarity",
        metrics=(SPEARMAN,),
        reference=(
            "Pakhomov et al. 2011, Towards a framework for developing semantic relatedness "
            "reference standards"
        ),
    )
)

UMNSRS_SIM = Similarity(
    Card(
        name="umnsrs-sim",
        title="UMNSRS similarity",
        about=(
            "566 pairs of terms for disorders, symptoms and drugs, their similarity judged "
            "by medical residents."
        ),
        origin=(
            "test/umnsrs of GanjinZero/CODER on GitHub, or the authors at the University of "
            "Minnesota"
        ),
        licence="free for research",
        files=(
            Needed(
                path="umnsrs-sim.tsv",
                columns=COLUMNS,
                rows=566,
                sha256="b9a113159902b3c8f3713ca8b7420ac27315a3aca03c5cc4c5f394a835de9937",
            ),
        ),
        folder="similarity",
        metrics=(SPEARMAN,),
        reference="Pakhomov et al. 2010, Semantic similarity and relatedness of clinical terms",
    )
)

UMNSRS_REL = Similarity(
    Card(
        name="umnsrs-rel",
        title="UMNSRS relatedness",
        about=(
            "587 pairs of terms for disorders, symptoms and drugs, their relatedness judged "
            "by medical residents."
        ),
        origin=(
            "test/umnsrs of GanjinZero/CODER on GitHub, or the authors at the University of "
            "Minnesota"
        ),
        licence="free for research",
        files=(
            Needed(
                path="umnsrs-rel.tsv",
                columns=COLUMNS,
                rows=587,
                sha256="181e38df393650ffa183dc644daa7659a9b07ca7151a5d115057a64106f16bc5",
            ),
        ),
        folder="similarity",
        metrics=(SPEARMAN,),
        reference="Pakhomov et al. 2010, Semantic similarity and relatedness of clinical terms",
    )
)

EHR_RELA = Similarity(
    Card(
        name="ehr-rela",
        title="EHR-RelA",
        about=(
            "111 pairs of SNOMED CT terms as they occur in health records, their relatedness "
            "judged by people."
        ),
        origin="babylonhealth/EHR-Rel on GitHub",
        licence="CC BY-SA 4.0",
        files=(
            Needed(
                path="ehr-rela.tsv",
                columns=COLUMNS,
                rows=111,
                sha256="11f5905b8bd52951e9d11b9e088f4447baac9d8186a32fdf65f95df716e1b771",
            ),
        ),
        folder="similarity",
        metrics=(SPEARMAN,),
        reference="Schulz et al. 2020, Biomedical concept relatedness: a large EHR-based benchmark",
    )
)

PAIRS = Pairs(
    Card(
        name="pairs",
        title="Pairs of terms",
        about=(
            "Any tables NAME.tsv with the columns term1, term2 and score, and id1 and id2 for "
            "embeddings that go by ids. Each file is a split."
        ),
        origin="you",
        licence="yours",
        files=(),
        metrics=(SPEARMAN,),
    )
)
