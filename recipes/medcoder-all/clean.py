"""Take out of data/ what equals a query of a benchmark, and what is under two concepts.

python recipes/medcoder-all/clean.py data/train --queries BENCH/*/queries.tsv --graph work/train.kg

A query is the first column of a table with a header. Two texts are equal if they are but for
case, accents, punctuation and spacing. In data/train/related, which says what belongs together, a
query may stand where the graph has it as a term, but not as another name. Files are written
anew in place.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from relations import BETWEEN

from medcoder import KG
from medcoder.text import fold
from tables import VARIANT, lay_files, read, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with lay/, notes/, parallel/, related/")
    parser.add_argument("--queries", type=Path, nargs="+", required=True)
    parser.add_argument("--graph", type=Path, required=True, help="what training knows anyway")
    options = parser.parse_args()
    queries = {fold(row[0]) for path in options.queries for row in read(path)[1]}
    print(f"{len(queries):,} queries")
    for path in lay_files(options.data):
        clean_lay(path, queries)
    for path in sorted((options.data / "parallel").glob("*.tsv")):
        clean_parallel(path, queries)
    kg = KG.open(options.graph)
    for path in sorted((options.data / "related").glob("*.tsv")):
        clean_related(path, queries, {query for query in queries if kg.find(query)})


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
    print(
        f"{path.parent.name}/{path.name}: {equal} queries, {twice} under two concepts, "
        f"{again} repeated: out"
    )


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
    print(
        f"{path.parent.name}/{path.name}: {equal} queries, {len(rows) - len(kept)} empty rows: out"
    )


def clean_related(path: Path, queries: set[str], known: set[str]) -> None:
    """Rows of one term become one row; items that are there twice or are the term itself go."""
    header, rows = read(path)
    kept: dict[str, list[dict[str, str]]] = {}
    unknown = queries - known
    equal = 0
    for term, *fields in rows:
        if fold(term) in unknown:
            equal += 1
            continue
        columns = kept.setdefault(fold(term), [{fold(term): term}, *({} for _ in fields)])
        for name, field, column in zip(header[1:], fields, columns[1:], strict=True):
            out = queries if name == "names" else unknown
            items = field.split(BETWEEN) if field else []
            equal += sum(fold(item) in out for item in items)
            for item in items:
                if fold(item) not in out and fold(item) != fold(term):
                    column.setdefault(fold(item), item)
    found = [[BETWEEN.join(column.values()) for column in row] for row in kept.values()]
    write(path, header, found)
    print(
        f"{path.parent.name}/{path.name}: {equal} queries: out; {len(found):,} of {len(rows):,} "
        "rows, those of one term together"
    )


if __name__ == "__main__":
    main()
