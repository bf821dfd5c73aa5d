"""The case studies: hits, the nearest term in each language, the five nearest side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medcoder.evaluate.base import Prediction
from medcoder.evaluate.hits import right_at
from medcoder.evaluate.report import quoted
from medcoder.evaluate.report.measured import Entry
from medcoder.evaluate.report.table import Cell, Column, Row, Table, slug, words

BENCH = "cases"
_FROM = f"Quoted columns: {quoted.CITATION}, as printed."
_FIRST = 5  # answers shown of a query


def cases(
    some: Sequence[Entry], answers: Mapping[str, Sequence[Prediction]], *, complete: bool
) -> Iterator[Table]:
    """`answers` has the predictions of each embedding on the case studies.

    complete: also what only the paper answered
    """
    yield _hits(some)
    asked = dict.fromkeys(p.query for predictions in answers.values() for p in predictions)
    names = dict.fromkeys(term for _, term, _ in quoted.DORSALGIA)
    if complete or asked.keys() & names.keys():
        yield _dorsalgia(answers)
    for query in (*quoted.TOP_FIVE, *(query for query in asked if query not in quoted.TOP_FIVE)):
        if query not in names and (complete or query in asked):
            yield _nearest(query, answers)


def _hits(some: Sequence[Entry]) -> Table:
    """How many of each case were hit."""
    splits = dict.fromkeys(
        split for entry in some for bench, split, metric in entry.values if _is_hits(bench, metric)
    )
    columns = dict.fromkeys(("dorsalgia", *splits))
    rows = [
        Row(
            entry.name,
            tuple(_hit(entry, split) for split in columns),
            "system" if entry.kind == "system" else "measured",
        )
        for entry in some
        if any(_is_hits(bench, metric) for bench, _, metric in entry.values)
    ]
    right = sum(target == "dorsalgia" for _, _, target in quoted.DORSALGIA)
    said = f"{right} of {len(quoted.DORSALGIA)}"
    cells = [said if split == "dorsalgia" else "" for split in columns]
    return Table(
        key="cases",
        title="Case studies: hits",
        columns=tuple(Column("", split) for split in columns),
        rows=(*rows, Row(quoted.ALL, words(*cells), "quoted")),
        notes=(
            "dorsalgia: the nearest English name in ICD-9-CM for its names in other languages. "
            "The paper searched the strings of UMLS, where dorsalgia is one; it is not a title of "
            "ICD-9-CM, where the right answer is backache.",
            f"Quoted rows: {quoted.CITATION}, as printed.",
        ),
    )


def _is_hits(bench: str, metric: str) -> bool:
    return (bench, metric) == (BENCH, "hits")


def _hit(entry: Entry, split: str) -> Cell:
    value = entry.values.get((BENCH, split, "hits"))
    return Cell() if value is None else Cell(text=f"{value.value:.0f} of {value.n}")


def _dorsalgia(answers: Mapping[str, Sequence[Prediction]]) -> Table:
    """The nearest term for each name of the paper; right ones in bold."""
    by = {name: {p.query: p for p in some} for name, some in answers.items()}
    rows = []
    for language, term, target in quoted.DORSALGIA:
        found = [_first(of.get(term)) for of in by.values()]
        rows.append(Row(f"{language}: {term}", (*found, Cell(text=target))))
    return Table(
        key="cases-dorsalgia",
        title="The nearest English term for dorsalgia in other languages",
        head="Term",
        columns=tuple(Column("", name) for name in (*answers, f"{quoted.ALL} (quoted)")),
        rows=tuple(rows),
        notes=(_FROM,),
        words=True,
    )


def _nearest(query: str, answers: Mapping[str, Sequence[Prediction]]) -> Table:
    """The first answers of every embedding, a column each."""
    columns = {
        name: _names(prediction)
        for name, some in answers.items()
        for prediction in some
        if prediction.query == query
    }
    said = quoted.TOP_FIVE.get(query, {})
    quotes = {f"{name} (quoted)": words(*terms) for name, terms in said.items()}
    columns |= quotes
    rows = [
        Row(str(rank + 1), tuple(_at(cells, rank) for cells in columns.values()))
        for rank in range(_FIRST)
    ]
    return Table(
        key=slug(f"cases {query}"),
        title=f"The nearest terms for “{query}”",
        head="Rank",
        columns=tuple(Column("", name) for name in columns),
        rows=tuple(rows),
        notes=(_FROM,) if said else (),
        words=True,
    )


def _first(prediction: Prediction | None) -> Cell:
    return _at(_names(prediction), 0) if prediction else Cell()


def _names(prediction: Prediction) -> tuple[Cell, ...]:
    right = right_at(prediction)
    return tuple(
        Cell(text=name, best=rank == right) for rank, name in enumerate(prediction.names, 1)
    )


def _at(cells: Sequence[Cell], rank: int) -> Cell:
    return cells[rank] if rank < len(cells) else Cell()
