"""Relation classification on triplets of your own, such as those of the Diseases Database."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.relations import COLUMNS, TEST, TRAIN, Relations

BENCH = Relations(
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
        metrics=("accuracy",),
        reference="Yuan et al. 2022, CODER",
    )
)
