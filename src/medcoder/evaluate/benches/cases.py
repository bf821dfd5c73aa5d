"""The case studies of the paper, on the titles of ICD-9-CM."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.cases import Cases
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Cases(
    Card(
        name="cases",
        title="Case studies",
        about=(
            "15 terms for back pain in 14 languages, which should find 724.5 first; the five "
            "nearest for pufferfish poisoning and angina; and the two cases of the paper's "
            "introduction. Ranked are long and short titles of ICD-9-CM, in which the paper's "
            "string dorsalgia does not occur: its figure, 13 of 15, is for UMLS strings."
        ),
        origin="ICD-9-CM version 32 of CMS: long and short titles of diagnoses",
        licence="US public domain",
        files=two_tables(
            queries=(18, "a78608cdcfee9ab931321e0f151700a7fce45f5801cb59ecbefab93ac21dde39"),
            dictionary=(29_134, "ca4b8348f1ceac585def062dd50789bed5426b26b694605775a6bfbf2f7012d7"),
        ),
        folder="icd9_case",
        metrics=("hits",),
        reference="Yuan et al. 2022, CODER",
    )
)
