"""The tables of the graph that the ablations are trained on.

python recipes/ablations/graph.py TERMS.parquet RELATIONS.parquet --test TEST.tsv ... --out DIR

English terms of the sources that are in, and the relations between their concepts. A relation
between two concepts that have the names of a pair of a TEST is left out, whichever way it points:
it would otherwise ask for what training has shown. A TEST is a table with the columns head and
tail, as that of relcls_open, or term1 and term2, as those of similarities.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import polars as pl

from medcoder.text import fold

PAIRS = (("head", "tail"), ("term1", "term2"))
MANIFEST = Path(__file__).parent.parent / "medcoder-all" / "manifest.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("terms", type=Path, help="concept_id, term, lang, source")
    parser.add_argument("relations", type=Path, help="head, relation, tail")
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="tables of pairs")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sources = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["source"]
    chosen = [name for name, about in sources.items() if about["in"]]
    terms = pl.read_parquet(options.terms, columns=["concept_id", "term", "lang", "source"])
    terms = terms.filter(pl.col("source").is_in(chosen), pl.col("lang") == "en")
    relations = without(pl.read_parquet(options.relations), terms, options.test)
    options.out.mkdir(parents=True, exist_ok=True)
    terms.write_parquet(options.out / "concepts_terms.parquet")
    relations.write_parquet(options.out / "relations.parquet")
    print(f"{len(terms):,} terms, {len(relations):,} relations")


def without(relations: pl.DataFrame, terms: pl.DataFrame, tests: Iterable[Path]) -> pl.DataFrame:
    """Relations between concepts of `terms` that are no pair of a test."""
    named = defaultdict(set)
    for concept, term in terms.select("concept_id", "term").iter_rows():
        named[fold(term)].add(concept)
    asked = set()
    for test in tests:
        for one, other in pairs_of(test):
            asked |= set(product(named.get(fold(one), ()), named.get(fold(other), ())))
    known = set(terms["concept_id"])
    kept = [
        head in known and tail in known and (head, tail) not in asked and (tail, head) not in asked
        for head, tail in relations.select("head", "tail").iter_rows()
    ]
    return relations.filter(pl.Series(kept, dtype=pl.Boolean))


def pairs_of(table: Path) -> Iterator[tuple[str, str]]:
    lines = table.read_text(encoding="utf-8").split("\n")
    header, *rows = [line.split("\t") for line in lines if line]
    for one, other in PAIRS:
        if one in header and other in header:
            first, second = header.index(one), header.index(other)
            yield from ((row[first], row[second]) for row in rows)
            return
    wanted = " or ".join(" and ".join(pair) for pair in PAIRS)
    raise SystemExit(f"{table}: no columns {wanted}; there are: {', '.join(header)}")


if __name__ == "__main__":
    main()
