"""What was compared: vocabulary, dimension, category of each embedding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medcoder.evaluate.report import quoted
from medcoder.evaluate.report.measured import KINDS
from medcoder.evaluate.report.table import Column, Row, Table, words
from medcoder.evaluate.scores import Score

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
    rows = [_row(name, some) for name, some in order]
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


def _row(name: str, scores: list[Score]) -> Row:
    first = scores[0]
    cells = words(
        _number(_first(scores, "vocabulary", "vocabulary_size")),
        _number(_first(scores, "dimension", "width")),
        first.kind,
        str(_first(scores, "pooling") or ""),
        f"{100 * min(score.coverage for score in scores):.1f}%",
        first.model[:12],
    )
    return Row(name, cells, "system" if first.kind == "system" else "measured")


def _first(scores: list[Score], *names: str) -> Any:
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
