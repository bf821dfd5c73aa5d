"""Take out of data/ what equals a query of a benchmark, and what is under two concepts.

python recipes/medcoder-all/clean.py data --queries BENCH/*/queries.tsv

A query is the first column of a table with a header. Two texts are equal if they are but for
case, accents, punctuation and spacing. Files are written anew in place.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tables import VARIANT, read, write

from medcoder.text import fold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with lay/ and parallel/")
    parser.add_argument("--queries", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    queries = {fold(row[0]) for path in options.queries for row in read(path)[1]}
    print(f"{len(queries):,} queries")
    for path in sorted((options.data / "lay").glob("*.tsv")):
        clean_lay(path, queries)
    for path in sorted((options.data / "parallel").glob("*.tsv")):
        clean_parallel(path, queries)


def clean_lay(path: Path, queries: set[str]) -> None:
    header, rows = read(path)
    owner: dict[str, str] = {}
    kept: dict[tuple[str, ...], None] = {}
    equal = twice = 0
    for concept, name, phrase in rows:
        key = fold(phrase)
        if key in queries:
            equal += 1
        elif owner.setdefault(key, concept) != concept:
            twice += 1
        else:
            kept[concept, name, phrase] = None
    write(path, header, kept)
    again = len(rows) - len(kept) - equal - twice
    print(f"{path.name}: {equal} queries, {twice} under two concepts, {again} repeated: out")


def clean_parallel(path: Path, queries: set[str]) -> None:
    header, rows = read(path)
    kept, equal = [], 0
    for concept, *fields in rows:
        terms = [field.split(VARIANT) for field in fields]
        good = [[term for term in some if fold(term) not in queries] for some in terms]
        equal += sum(map(len, terms)) - sum(map(len, good))
        if any(any(some) for some in good):
            kept.append([concept, *(VARIANT.join(some) for some in good)])
    write(path, header, kept)
    print(f"{path.name}: {equal} queries, {len(rows) - len(kept)} empty rows: out")


if __name__ == "__main__":
    main()
