"""NCBI disease corpus."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.biosyn import Biosyn
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Biosyn(
    Card(
        name="ncbi",
        title="NCBI disease",
        about=(
            "Mentions of diseases in abstracts to MeSH and OMIM, in the form of BioSyn: the test "
            "mentions against all names of its test dictionary. Takes the files of BioSyn "
            "(test_dictionary.txt and processed_test), or the two tables."
        ),
        origin="the data of dmis-lab/BioSyn on GitHub",
        licence="public domain (NCBI)",
        files=two_tables(),
        metrics=("acc@1", "acc@3"),
        reference="Dogan et al. 2014, NCBI disease corpus; Sung et al. 2020, BioSyn",
    )
)
