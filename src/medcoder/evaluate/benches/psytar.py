"""PsyTar."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.folds import Folds
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Folds(
    Card(
        name="psytar",
        title="PsyTar",
        about=(
            "Patients' words for the effects of psychiatric drugs to SNOMED CT: the folds that "
            "were published with the paper's code, 2,591 queries over all folds and 167 concepts "
            "with one name each. acc@k is the unweighted mean of the five folds. Quotes are part "
            "of the text. Takes the folders of the folds as they are published, or the two tables."
        ),
        origin="test/cadec/data/psytar_disjoint_folds of GanjinZero/CODER on GitHub",
        licence="CC BY 4.0",
        files=two_tables(
            queries=(12_955, "fbe39229cbd80c52cac114be43132ae7a1aae71e509a2cecf4341b0562c19012"),
            dictionary=(167, "c8a9d85fad7ef4873b688926a9425ae6084c9ce9897f8fffa89792aed4415769"),
        ),
        metrics=("acc@1", "acc@3"),
        reference="Zolnoori et al. 2019, The PsyTAR dataset",
    ),
    expected=(2_591, 167),
)
