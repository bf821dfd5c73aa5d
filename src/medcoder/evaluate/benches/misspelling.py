"""Misspellings."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.concepts import Linking
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Linking(
    Card(
        name="misspelling",
        title="Misspellings",
        about="Misspelt words of patients' forums to the right word among 13,029.",
        origin="AnneDirkson/SpellingCorpus on GitHub, put into two tables",
        licence="BSD-like",
        files=two_tables(
            queries=(178, "f9deb195417880241f644732efc20daf5b283929d3d25178568a0ab8317bbb25"),
            dictionary=(13_029, "556a3cb0eeb7afc2392b6811a5ceff6e4f53a2d70888eeb8263fd8bbf0989ee7"),
        ),
        metrics=("acc@1", "acc@3"),
        reference="Dirkson et al. 2019, Data-driven lexical normalization for medical social media",
    )
)
