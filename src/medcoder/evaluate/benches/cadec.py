"""Cadec."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.folds import Folds
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Folds(
    Card(
        name="cadec",
        title="Cadec",
        about=(
            "Patients' words for side effects, from a forum, to SNOMED CT: the folds that were "
            "published with the paper's code, 2,159 queries over all folds and 181 concepts with "
            "one name each. acc@k is the unweighted mean of the five folds. Takes the "
            "folders of the folds as they are published, or the two tables."
        ),
        origin="test/cadec/data/cadec of GanjinZero/CODER on GitHub",
        licence="CSIRO data licence",
        files=two_tables(
            queries=(10_795, "938a8d15e99593c6f3c1f103a8ec6c03a453b977d1094727a242d5a62b25c2d7"),
            dictionary=(181, "23c7e3dc4b0cfbb2d7130bb1562d274986b938ec009df48315b04da50e5446b2"),
        ),
        metrics=("acc@1", "acc@3"),
        reference="Karimi et al. 2015, Cadec: a corpus of adverse drug event annotations",
    ),
    expected=(2_159, 181),
)
