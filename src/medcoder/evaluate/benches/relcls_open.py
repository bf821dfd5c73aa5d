"""Relation classification on open triplets, in place of those of the Diseases Database."""

from medcoder.evaluate.card import Card, Needed
from medcoder.evaluate.tasks.relations import COLUMNS, TEST, TRAIN, Relations

BENCH = Relations(
    Card(
        name="relcls_open",
        title="Relation classification, open",
        about=(
            "An open stand-in for DDBRC: 56,788 triplets to train on and 14,198 to test, of 16 "
            "relations, between English names of diseases, phenotypes, symptoms and drugs."
        ),
        origin="Disease Ontology, HPO annotations, SIDER 4 and HSDN, put into two tables",
        licence="CC0, HPO licence, CC BY-NC-SA 4.0",
        files=(
            Needed(
                path=TRAIN,
                columns=COLUMNS,
                rows=56_788,
                sha256="a677db267ed993fa5c9191a5fb1777248da0e3d48c850263c733102683e6f35d",
            ),
            Needed(
                path=TEST,
                columns=COLUMNS,
                rows=14_198,
                sha256="c140d4bb98269eeda93305f32b524dc9a88f2c3e226246d7a338125c6136160f",
            ),
        ),
        metrics=("accuracy",),
        reference="Yuan et al. 2022, CODER",
    )
)
