"""The MANTRA gold standard, against the names of the concepts that are annotated in it."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.annotations import Annotations
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Annotations(
    Card(
        name="mantra",
        title="MANTRA GSC",
        about=(
            "Annotated spans of Medline titles, drug labels and patents in five languages to UMLS: "
            "4,815 spans against one English name of each of the 1,365 concepts that are "
            "annotated. The paper ranks 801,038 concepts, which needs a UMLS licence: put them "
            "into dictionary.tsv and allow other data. Takes the two tables, or the brat or the "
            "XML release unpacked; XML has no names, and needs dictionary.tsv."
        ),
        origin="mi-erasmusmc/Mantra-Gold-Standard-Corpus on GitHub",
        licence="CC BY 4.0 by its homepage, GPL-3.0 by its repository",
        files=two_tables(
            queries=(4_815, "73e723efdcbea27481cf8d50dc3c4313665bb4f12786c8939695f12f3c041213"),
            dictionary=(1_365, "f8b38c587044aa68c2c5bec0f257331871de6892dcf497266212d8627d1754b1"),
        ),
        metrics=("f1", "accuracy", "precision", "recall"),
        reference="Kors et al. 2015, A multilingual gold-standard corpus: the Mantra GSC",
    )
)
