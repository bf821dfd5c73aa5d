"""BC5CDR disease."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.biosyn import Biosyn
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Biosyn(
    Card(
        name="bc5cdr",
        title="BC5CDR disease",
        about=(
            "Mentions of diseases in abstracts to MeSH in the form of BioSyn: 4,235 test "
            "mentions, the parts of composite ones apart and not tested, against all names of its "
            "test dictionary."
        ),
        origin="the resources of rescnn_bioel (laituan245 on GitHub), put into two tables",
        licence="public domain (BioCreative V CDR)",
        files=two_tables(
            queries=(12_835, "fc4be5fbb89276879f5057813f2908e1a0839b8a3c2d71b981994c9bb8abf00d"),
            dictionary=(73_126, "d8085f74c93279d6cfddb96a3d5fe5e47791dc39869b3aa9ec49d898f263e916"),
        ),
        folder="bc5cdr_d_biosyn",
        metrics=("acc@1", "acc@3"),
        reference="Li et al. 2016, BioCreative V CDR; Sung et al. 2020, BioSyn",
    )
)
