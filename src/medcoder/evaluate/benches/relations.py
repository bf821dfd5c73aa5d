"""DDBRC: the relation of two concepts, told from their vectors by a linear classifier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from medcoder.errors import InputError
from medcoder.evaluate.benches.task import (
    Card,
    Metric,
    Needed,
    Task,
    figure,
    word_figures,
)
from medcoder.evaluate.metrics import mean
from medcoder.evaluate.results import Context, Embedding, Linker, Prediction, Result
from medcoder.tables.text import read_columns

TRAIN, TEST = "train.tsv", "test.tsv"
COLUMNS = ("head", "relation", "tail")
EPOCHS = 50  # appendix of the paper
MODES = {"frozen": False, "fine-tuned": True}
POOLING: Literal["cls"] = "cls"

Triplet = tuple[str, str, str, str, str]  # head, relation, tail, id of the head, id of the tail


@dataclass(frozen=True)
class Relations(Task):
    """Accuracy of softmax(W [e_h; e_t] + b), with the vectors as they are and trained along.

    Those of contextual embeddings are of [CLS], as in the paper, whatever pooling they have
    elsewhere. An exported encoder has but its own pooling, and vectors of length 1.
    """

    def settings(self, context: Context) -> dict[str, Any]:
        return {
            "epochs": int(context.options.get("epochs", EPOCHS)),
            "modes": list(context.options.get("modes", MODES)),
            "contextual_pooling": POOLING,
        }

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        from medcoder.evaluate.relation_classifier import classify, trainable

        assert not isinstance(system, Linker)
        folder, settings = self.card.check(data, pinned=context.pinned), self.settings(context)
        train, test = (read_triplets(folder / name) for name in (TRAIN, TEST))
        figures, predictions = [], []
        for mode in settings["modes"]:
            if MODES[mode] and not trainable(system):
                continue  # exported encoders and lexical spaces have nothing to train
            outcome = classify(
                system,
                train,
                test,
                fine_tune=MODES[mode],
                epochs=settings["epochs"],
                seed=context.seed,
                pooling=POOLING,
                progress=context.progress,
            )
            estimate = mean(outcome.correct, resamples=context.resamples, seed=context.seed)
            figures.append(figure(mode, "accuracy", estimate, len(test)))
            predictions += [
                _prediction(mode, triplet, label)
                for triplet, label in zip(test, outcome.predicted, strict=True)
            ]
        asked = [name for head, _, tail, *_ in test for name in (head, tail)]
        return Result([*figures, *word_figures(system, asked, context)], predictions)


def _prediction(mode: str, triplet: Triplet, predicted: str) -> Prediction:
    head, relation, tail, *_ = triplet
    return Prediction(
        query=f"{head} -> {tail}",
        language="",
        split=mode,
        gold=relation,
        gold_names=relation,
        concepts=(predicted,),
        names=(predicted,),
        scores=(),
        seen=False,
    )


def read_triplets(file: Path) -> list[Triplet]:
    rows = read_columns(file, COLUMNS, optional=("head_id", "tail_id"))
    if not rows:
        raise InputError("it has no triplets", file=file, remedy="Add a row for each triplet")
    return [
        (head, relation, tail, head_id, tail_id) for head, relation, tail, head_id, tail_id in rows
    ]


# Benches

RELCLS = Relations(
    Card(
        name="relcls",
        title="DDBRC",
        about=(
            "The relation of two concepts from their vectors, by softmax(W [e_h; e_t] + b), with "
            "the vectors as they are and trained along. The paper has 131,741 triplets of 14 "
            "relations, split 4:1. Embeddings that go by ids need the columns head_id and tail_id."
        ),
        origin="the Diseases Database, diseasesdatabase.com",
        licence="not open: ask the owners",
        files=(Needed(path=TRAIN, columns=COLUMNS), Needed(path=TEST, columns=COLUMNS)),
        metrics=(Metric("accuracy"),),
        curves=False,
        reference="Yuan et al. 2022, CODER",
    )
)

RELCLS_OPEN = Relations(
    Card(
        name="relcls_open",
        title="Relation classification, open",
        about=(
            "An open stand-in for DDBRC: 56,788 triplets to train on and 14,198 to test, of 16 "
            "relations, between English names of diseases, phenotypes, symptoms and drugs."
        ),
        origin="Disease Ontology, HPO annotations, SIDER 4 and HSDN, put into two tables",
        licence="CC0, HPO licence, CC BY-NC-SA 4.0",
        files=(
            Needed(
                path=TRAIN,
                columns=COLUMNS,
                rows=56_788,
                sha256="a677db267ed993fa5c9191a5fb1777248da0e3d48c850263c733102683e6f35d",
            ),
            Needed(
                path=TEST,
                columns=COLUMNS,
                rows=14_198,
                sha256="c140d4bb98269eeda93305f32b524dc9a88f2c3e226246d7a338125c6136160f",
            ),
        ),
        metrics=(Metric("accuracy"),),
        curves=False,
        reference="Yuan et al. 2022, CODER",
    )
)
