"""MCSM on MeSH, whose branches stand in for semantic types."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.types import CONCEPTS, Types

BENCH = Types(
    Card(
        name="mcsm_mesh",
        title="MCSM on MeSH",
        about=(
            "An open stand-in for MCSM on SNOMED CT: 27,453 descriptors of MeSH 2015 and nine of "
            "its branches in place of semantic types. Descriptors of other branches are "
            "neighbours, and of no type."
        ),
        origin="data/tree-numbers.tsv of dhimmel/mesh on GitHub",
        licence="public domain (NLM)",
        files=(
            Needed(
                path=CONCEPTS,
                columns=("mesh_id", "name", "types"),
                rows=27_453,
                sha256="9ab5e7411386cd9ff78c4328e999df94a018c2e489c2e4f3524adca6ae9ce4f6",
            ),
        ),
        metrics=("mcsm", "mcsm_oov0"),
        reference="Choi et al. 2016, Learning low-dimensional representations of medical concepts",
    ),
    id_column="mesh_id",
)
