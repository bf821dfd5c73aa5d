"""What belongs together: pairs of related terms, out of the tables of data/train/related."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from medcoder.text import fold
from tables import read

BETWEEN = " | "  # the items of a field
# How much a column with one item weighs, by its name; n items have this times n to the power of
# one half together. Each column after the first is there.
WEIGHTS = {
    "names": 3.0, "kinds": 2.0, "closest": 1.5, "treats": 2.0, "action": 0.7, "effects": 0.4,
    "other": 0.6, "signs": 1.5, "causes": 0.8, "complications": 0.8, "treatments": 0.8,
    "tests": 0.5, "conditions": 1.5, "parts": 0.7, "measures": 0.5,
}  # fmt: skip
# A brand has, with this weight, what its drug has.
OF_BRANDS = {"kinds": 1.0, "closest": 1.0, "treats": 0.8}
BRANDS = "drugs"  # tables whose names are brands
PAIRS = (("term1", "term2"), ("head", "tail"))  # columns of a table of pairs


class Item(NamedTuple):
    """A term, what it is related to, and how."""

    term: str
    item: str
    label: str
    weight: float


def read_related(folder: Path, *, without: Collection[frozenset[str]]) -> list[Item]:
    """All items of the tables but those that are, with their term, a pair of `without`."""
    return [
        one
        for file in sorted(folder.glob("*.tsv"))
        for one in of_table(file)
        if fold(one.term) != fold(one.item)
        and frozenset((fold(one.term), fold(one.item))) not in without
    ]


def of_table(file: Path) -> Iterable[Item]:
    """An item with the term of its row; a brand also with kinds, kin and uses of its drug."""
    (_, *columns), rows = read(file)
    for term, *fields in rows:
        items = {
            column: field.split(BETWEEN)
            for column, field in zip(columns, fields, strict=True)
            if field
        }
        for column, some in items.items():
            for item in some:
                yield Item(term, item, f"{file.stem}.{column}", WEIGHTS[column] / len(some) ** 0.5)
        if not file.stem.startswith(BRANDS):
            continue
        brands = items.get("names", [])
        for column, weight in OF_BRANDS.items():
            some = items.get(column, [])
            for brand in brands:
                for item in some:
                    share = weight / (len(some) * len(brands)) ** 0.5
                    yield Item(brand, item, f"{file.stem}.{column}", share)


def asked_for(tables: Iterable[Path]) -> set[frozenset[str]]:
    """Pairs of folded terms that tables ask for."""
    found = set()
    for table in tables:
        header, rows = read(table)
        columns = [pair for pair in PAIRS if set(pair) <= set(header)]
        if not columns:
            raise SystemExit(f"{table}: no columns of pairs; there are: {', '.join(header)}")
        first, second = map(header.index, columns[0])
        found |= {frozenset((fold(row[first]), fold(row[second]))) for row in rows}
    return found
