"""UMNSRS relatedness."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.pairs import COLUMNS, Similarity

BENCH = Similarity(
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
        metrics=("spearman",),
        reference="Pakhomov et al. 2010, Semantic similarity and relatedness of clinical terms",
    )
)
