"""The tables of the graph that the ablations are trained on.

python recipes/ablations/graph.py TERMS.parquet RELATIONS.parquet --test TEST.tsv --out DIR

English terms of the sources that are in, and the relations between their concepts. A relation
between two concepts that have the names of a pair of TEST is left out, whichever way it points:
relation classification would otherwise ask for what training has shown.
"""

from __future__ import annotations

import argparse
import tomllib
from collections import defaultdict
from itertools import product
from pathlib import Path

import polars as pl

from medcoder.text import fold

MANIFEST = Path(__file__).parent.parent / "medcoder-all" / "manifest.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("terms", type=Path, help="concept_id, term, lang, source")
    parser.add_argument("relations", type=Path, help="head, relation, tail")
    parser.add_argument("--test", type=Path, required=True, help="test.tsv of relcls_open")
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


def without(relations: pl.DataFrame, terms: pl.DataFrame, test: Path) -> pl.DataFrame:
    """Relations between concepts of `terms` that are no pair of the test."""
    named = defaultdict(set)
    for concept, term in terms.select("concept_id", "term").iter_rows():
        named[fold(term)].add(concept)
    asked = set()
    for line in filter(None, test.read_text(encoding="utf-8").split("\n")[1:]):
        head, _, tail, *_ = line.split("\t")
        asked |= set(product(named.get(fold(head), ()), named.get(fold(tail), ())))
    known = set(terms["concept_id"])
    kept = [
        head in known and tail in known and (head, tail) not in asked and (tail, head) not in asked
        for head, tail in relations.select("head", "tail").iter_rows()
    ]
    return relations.filter(pl.Series(kept, dtype=pl.Boolean))


if __name__ == "__main__":
    main()
