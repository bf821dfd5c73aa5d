"""HPO GSC+."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.concepts import Linking
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Linking(
    Card(
        name="hpo_gsc",
        title="HPO GSC+",
        about=(
            "Mentions of phenotypes in 208 abstracts to the Human Phenotype Ontology: 1,949 test "
            "mentions against all labels and synonyms of the release of 2025-01-16."
        ),
        origin="data/corpus.zip of ncbi-nlp/PhenoTagger on GitHub and hp.obo, put into two tables",
        licence="free to use, cite the source; HPO licence",
        files=two_tables(
            queries=(2_122, "0aefcd9c2f16d8d4d49d245ac53942568328a803f9ffbc86178595e0d20eb072"),
            dictionary=(41_498, "80e60381547084dcb376e3174ff1642f3036f63768dec196dd4fce3ec347c9bd"),
        ),
        metrics=("acc@1", "acc@3"),
        reference="Groza et al. 2015; Lobo et al. 2017, GSC+",
    )
)
