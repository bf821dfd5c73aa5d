"""MayoSRS."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.pairs import COLUMNS, Similarity

BENCH = Similarity(
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
        metrics=("spearman",),
        reference=(
            "Pakhomov et al. 2011, Towards a framework for developing semantic relatedness "
            "reference standards"
        ),
    )
)
