"""What a model got wrong, and what two models got differently."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from medcoder.errors import InputError, MissingExtra
from medcoder.evaluate.report.table import Cell, Column, Row, Table
from medcoder.evaluate.results import Prediction, read_predictions, right_at


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A query whose first answer is not a right one."""

    query: str
    language: str
    split: str
    gold: str  # ids joined by "|"
    gold_names: str
    predicted: str  # "" where there was no answer
    predicted_name: str
    score: float | None
    rank: int | None  # of the first right answer among those kept, from 1 on
    right_score: float | None  # of that answer
    seen: bool


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A query that one of two models got right and the other wrong."""

    query: str
    language: str
    split: str
    gold: str
    gold_names: str
    first: str  # name that the first model answered with
    first_score: float | None
    second: str
    second_score: float | None
    fixed: bool  # the second model is the one that is right


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two models on the same queries."""

    fixed: tuple[Changed, ...]  # wrong in the first, right in the second
    broken: tuple[Changed, ...]
    both_right: int
    both_wrong: int
    p: float  # exact sign test over fixed and broken: how often chance would do as much


def errors(
    predictions: str | Path,
    *,
    split: str | None = None,
    language: str | None = None,
    unseen: bool = False,
) -> list[Wrong]:
    """Queries whose first answer is wrong, the surest mistakes first.

    unseen: only queries that are not terms of the training graph
    """
    mistakes = [
        _wrong(prediction)
        for prediction in read_predictions(Path(predictions))
        if right_at(prediction) != 1
        and split in (None, prediction.split)
        and language in (None, prediction.language)
        and not (unseen and prediction.seen)
    ]
    return sorted(mistakes, key=lambda wrong: (wrong.score is None, -(wrong.score or 0.0)))


def difference(first: str | Path, second: str | Path) -> Difference:
    """What the second model got right that the first did not, and the other way round."""
    pairs = _paired(Path(first), Path(second))
    fixed: list[Changed] = []
    broken: list[Changed] = []
    both = [0, 0]
    for before, after in pairs:
        was, now = right_at(before) == 1, right_at(after) == 1
        if was == now:
            both[was] += 1
        else:
            (fixed if now else broken).append(_changed(before, after, fixed=now))
    return Difference(
        fixed=tuple(fixed),
        broken=tuple(broken),
        both_right=both[True],
        both_wrong=both[False],
        p=sign_test(len(fixed), len(broken)),
    )


def sign_test(wins: int, losses: int) -> float:
    """Chance of a split at least as uneven if either side were as likely, both tails.

    >>> round(sign_test(9, 1), 9)
    0.021484375
    """
    try:
        from scipy.stats import binomtest
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "the sign test needs scipy", remedy="Install it with: pip install 'medcoder[eval]'"
        ) from error
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def errors_table(wrong: Sequence[Wrong], *, title: str = "What went wrong") -> Table:
    """A row for each mistake."""
    columns = ("language", "split", "gold", "answer", "score", "right at")
    rows = (
        (
            each.query,
            each.language,
            each.split,
            _named(each.gold, each.gold_names),
            _named(each.predicted, each.predicted_name),
            _number(each.score),
            "" if each.rank is None else f"{each.rank} ({_number(each.right_score)})",
        )
        for each in wrong
    )
    count = f"{len(wrong):,} {'query' if len(wrong) == 1 else 'queries'}"
    return _table("errors", title, columns, rows, notes=(f"{count}, the surest mistakes first.",))


def difference_table(
    compared: Difference, *, first: str = "first", second: str = "second", title: str | None = None
) -> Table:
    """A row for each query that only one of the two got right."""
    columns = ("language", "split", "gold", first, "score", second, "score", "right")
    rows = (
        (
            each.query,
            each.language,
            each.split,
            _named(each.gold, each.gold_names),
            each.first,
            _number(each.first_score),
            each.second,
            _number(each.second_score),
            second if each.fixed else first,
        )
        for each in (*compared.fixed, *compared.broken)
    )
    note = (
        f"Right in {second} only: {len(compared.fixed):,}; "
        f"in {first} only: {len(compared.broken):,}; "
        f"in both: {compared.both_right:,}; in neither: {compared.both_wrong:,}. "
        f"Sign test: p = {compared.p:.2g}."
    )
    return _table("difference", title or f"{first} and {second}", columns, rows, notes=(note,))


def to_jsonl(items: Iterable[Wrong | Changed]) -> str:
    """One object a line."""
    return "".join(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in items)


def _wrong(prediction: Prediction) -> Wrong:
    rank = right_at(prediction)
    return Wrong(
        query=prediction.query,
        language=prediction.language,
        split=prediction.split,
        gold=prediction.gold,
        gold_names=prediction.gold_names,
        predicted=prediction.concepts[0] if prediction.concepts else "",
        predicted_name=prediction.names[0] if prediction.names else "",
        score=prediction.scores[0] if prediction.scores else None,
        rank=rank,
        right_score=None if rank is None else prediction.scores[rank - 1],
        seen=prediction.seen,
    )


def _paired(first: Path, second: Path) -> list[tuple[Prediction, Prediction]]:
    """The two answers to each query; an error if the queries are not the same."""
    earlier, later = read_predictions(first), read_predictions(second)
    for row, (before, after) in enumerate(zip(earlier, later, strict=False), 1):
        if (before.query, before.split, before.gold) != (after.query, after.split, after.gold):
            raise InputError(
                "the two files do not have the same query here",
                file=second,
                row=row,
                values=f"{after.query!r} of {after.split!r}, {before.query!r} of {before.split!r}",
                remedy="Compare predictions of the same bench and data",
            )
    if len(earlier) != len(later):
        raise InputError(
            "the two files do not have as many queries",
            file=second,
            values=f"{len(later):,}, {len(earlier):,}",
            remedy="Compare predictions of the same bench and data",
        )
    return list(zip(earlier, later, strict=True))


def _changed(before: Prediction, after: Prediction, *, fixed: bool) -> Changed:
    return Changed(
        query=before.query,
        language=before.language,
        split=before.split,
        gold=before.gold,
        gold_names=before.gold_names,
        first=before.names[0] if before.names else "",
        first_score=before.scores[0] if before.scores else None,
        second=after.names[0] if after.names else "",
        second_score=after.scores[0] if after.scores else None,
        fixed=fixed,
    )


def _table(
    key: str,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    notes: tuple[str, ...],
) -> Table:
    return Table(
        key=key,
        title=title,
        head="query",
        columns=tuple(Column("", name) for name in columns),
        rows=tuple(Row(name, tuple(Cell(text=text) for text in cells)) for name, *cells in rows),
        notes=notes,
        words=True,
    )


def _named(concept: str, name: str) -> str:
    return f"{name} ({concept})" if name and concept else name or concept


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
