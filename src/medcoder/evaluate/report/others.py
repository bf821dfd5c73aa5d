"""Tables that the paper does not have: similarity, dictionaries, whatever else was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medcoder.evaluate.base import OOV
from medcoder.evaluate.report.measured import Entry, Wanted, rows
from medcoder.evaluate.report.table import MANY, Column, Table, slug, transposed

_LINKING = {"cadec", "psytar"}
_MANTRA = {"mantra", "mantra_open"}
_CASES = "cases"


def others(some: Sequence[Entry]) -> Iterator[Table]:
    """Tables for similarity, dictionaries, unknown words, and one for each bench left."""
    keys = dict.fromkeys(key for entry in some for key in entry.values)
    left = [key for key in keys if not _in_paper(*key)]
    similar = [key for key in left if key[2] == "spearman"]
    words = [key for key in left if key[2] == OOV]
    linked = [key for key in left if key[2].startswith("acc@")]
    yield _table(
        some,
        "similarity",
        "Similarity of terms: Spearman's rank correlation with people",
        [
            Wanted(Column("", _named(bench, split)), bench, split, metric, 3, percent=False)
            for bench, split, metric in similar
        ],
    )
    for wanted_split, key, title in (
        ("all", "dictionaries", "Linking to a dictionary: accuracy, %"),
        ("unseen", "dictionaries-unseen", "Linking to a dictionary, unseen queries: accuracy, %"),
    ):
        yield _table(
            some,
            key,
            title,
            [
                Wanted(Column(bench, metric), bench, split, metric)
                for bench, split, metric in linked
                if split == wanted_split
            ],
        )
    yield _table(
        some,
        "words",
        "Word vectors: out-of-vocabulary rate, % of the words that are asked for",
        [
            Wanted(Column("", _named(bench, split)), bench, split, metric, least=True)
            for bench, split, metric in words
        ],
    )
    known = {*similar, *words, *(key for key in linked if key[1] in ("all", "unseen"))}
    rest = [key for key in left if key not in known]
    for bench in dict.fromkeys(key[0] for key in rest):
        yield _table(
            some,
            f"{slug(bench)}-more",
            f"{bench}: other figures",
            [
                Wanted(Column(split, metric), bench, split, metric, 3, percent=False)
                for b, split, metric in rest
                if b == bench
            ],
        )


def _table(some: Sequence[Entry], key: str, title: str, wanted: Sequence[Wanted]) -> Table:
    poolings = {entry.pooling for entry in some if entry.pooling}
    table = Table(
        key=key,
        title=title,
        columns=tuple(want.column for want in wanted),
        rows=tuple(rows(some, wanted, pooling=len(poolings) > 1)),
    )
    return table if len(wanted) <= MANY else transposed(table, head="Figure")


def _in_paper(bench: str, split: str, metric: str) -> bool:
    """Whether another table shows this figure."""
    if metric == OOV:
        return False
    if bench in _LINKING:
        return split in ("all", "unseen") and metric in ("acc@1", "acc@3")
    if bench in _MANTRA:
        return not (split in ("all", "unseen") and metric.startswith("acc@"))
    relations = split in ("frozen", "fine-tuned") and metric == "accuracy"
    return relations or metric.startswith("mcsm") or bench == _CASES


def _named(bench: str, split: str) -> str:
    return bench if split == "all" else f"{bench}, {split}"
