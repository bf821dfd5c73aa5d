"""MCSM on a typed dictionary of your own, such as the SNOMED CT concepts of the paper."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.types import CONCEPTS, Types

BENCH = Types(
    Card(
        name="mcsm",
        title="MCSM",
        about=(
            "Whether the 40 nearest neighbours of a concept are of its semantic type; at best "
            "11.09. The paper takes 157,726 concepts of SNOMED CT and the types Pharmacologic "
            "Substance, Disease or Syndrome, Neoplastic Process, Clinical Drug, Finding, and "
            "Injury or Poisoning. Any table of concepts serves: concept, one name, and types with "
            "| between several."
        ),
        origin="MRCONSO.RRF and MRSTY.RRF of UMLS",
        licence="UMLS licence",
        files=(Needed(path=CONCEPTS, columns=("concept", "name", "types")),),
        metrics=("mcsm", "mcsm_oov0"),
        reference="Choi et al. 2016, Learning low-dimensional representations of medical concepts",
    )
)
