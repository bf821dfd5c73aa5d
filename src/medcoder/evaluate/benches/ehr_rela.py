"""EHR-RelA."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.pairs import COLUMNS, Similarity

BENCH = Similarity(
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
        metrics=("spearman",),
        reference="Schulz et al. 2020, Biomedical concept relatedness: a large EHR-based benchmark",
    )
)
