"""Tables beside those of the paper: other benches, case studies, and what was compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medcoder.evaluate.report import quoted
from medcoder.evaluate.report.table import (
    KINDS,
    MANY,
    Cell,
    Column,
    Entry,
    Row,
    Table,
    Wanted,
    rows,
    slug,
    transposed,
    words,
)
from medcoder.evaluate.results import (
    OOV,
    Prediction,
    Score,
    predictions_file,
    read_predictions,
    right_at,
)

# Other benches: similarity, dictionaries, whatever else was measured

_LINKING = {"cadec", "psytar"}
_MANTRA = {"mantra", "mantra_open"}


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
    return relations or metric.startswith("mcsm") or bench == BENCH


def _named(bench: str, split: str) -> str:
    return bench if split == "all" else f"{bench}, {split}"


# The case studies: hits, the nearest term in each language, the five nearest side by side

BENCH = "cases"
_FROM = f"Quoted columns: {quoted.CITATION}, as printed."
_FIRST = 5  # answers shown of a query


def read_cases(folder: Path, scores: Sequence[Score]) -> dict[str, list[Prediction]]:
    """What each model of a run answered in the case studies."""
    files = {
        score.embedding: predictions_file(folder, score.embedding, BENCH)
        for score in scores
        if score.bench == BENCH
    }
    return {name: read_predictions(file) for name, file in files.items() if file.exists()}


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
        cells = [_first(of.get(term)) for of in by.values()]
        rows.append(Row(f"{language}: {term}", (*cells, Cell(text=target))))
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


# What was compared: vocabulary, dimension, category of each embedding

_COLUMNS = ("Vocabulary", "Dimension", "Category", "Pooling", "Known", "Fingerprint")

_MIXED = (
    "Beware: figures of several models have one name: {}. The fingerprint is that of one. "
    "Run all benches of the model again, or give each model a name of its own."
)


def summary(scores: Iterable[Score]) -> Table:
    """The appendix's table of embeddings, for those measured and those quoted."""
    named: dict[str, list[Score]] = {}
    for score in scores:
        named.setdefault(score.embedding, []).append(score)
    order = sorted(named.items(), key=lambda pair: _place(pair[1][0].kind))
    rows = [_compared_row(name, some) for name, some in order]
    mixed = [name for name, some in named.items() if len({score.model for score in some}) > 1]
    rows += [
        Row(row.name, words(*row.values, row.kind, "", "", ""), "quoted") for row in quoted.SUMMARY
    ]
    return Table(
        key="embeddings",
        title="The embeddings compared",
        columns=tuple(Column("", name) for name in _COLUMNS),
        rows=tuple(rows),
        notes=(
            "Vocabulary: words, concepts or tokens that have a vector of their own. "
            "Known: share of the items that the embedding had a vector for, lowest of all benches.",
            *([_MIXED.format(", ".join(mixed))] if mixed else []),
            f"Quoted rows: {quoted.CITATION}, as printed.",
        ),
        words=True,
    )


def _compared_row(name: str, scores: list[Score]) -> Row:
    first = scores[0]
    cells = words(
        _number(_setting(scores, "vocabulary", "vocabulary_size")),
        _number(_setting(scores, "dimension", "width")),
        first.kind,
        str(_setting(scores, "pooling") or ""),
        f"{100 * min(score.coverage for score in scores):.1f}%",
        first.model[:12],
    )
    return Row(name, cells, "system" if first.kind == "system" else "measured")


def _setting(scores: list[Score], *names: str) -> Any:
    """A setting that any of the lines has."""
    for score in scores:
        for name in names:
            if score.settings.get(name) is not None:
                return score.settings[name]
    return None


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _place(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)
