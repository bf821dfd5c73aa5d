"""The MANTRA gold standard, against 25,309 concepts."""

from medcoder.evaluate.card import Card
from medcoder.evaluate.tasks.annotations import Annotations
from medcoder.evaluate.tasks.queries import two_tables

BENCH = Annotations(
    Card(
        name="mantra_open",
        title="MANTRA GSC, open dictionary",
        about=(
            "The spans of MANTRA GSC against the names of its own concepts and of some 24,000 "
            "others, 63,867 English terms in all: nearer to what the paper does than the names of "
            "its own concepts alone."
        ),
        origin="mi-erasmusmc/Mantra-Gold-Standard-Corpus on GitHub, and open names of concepts",
        licence="CC BY 4.0 by its homepage, GPL-3.0 by its repository; names of mixed licences",
        files=two_tables(
            queries=(4_815, "73e723efdcbea27481cf8d50dc3c4313665bb4f12786c8939695f12f3c041213"),
            dictionary=(63_867, "7b351b0048159eb20fa3cac03c3329bd3d99028d984347b9b555829cee072d78"),
        ),
        metrics=("f1", "accuracy", "precision", "recall"),
        reference="Kors et al. 2015, A multilingual gold-standard corpus: the Mantra GSC",
    )
)
