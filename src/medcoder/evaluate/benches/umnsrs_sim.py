"""UMNSRS similarity."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.pairs import COLUMNS, Similarity

BENCH = Similarity(
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
        metrics=("spearman",),
        reference="Pakhomov et al. 2010, Semantic similarity and relatedness of clinical terms",
    )
)
