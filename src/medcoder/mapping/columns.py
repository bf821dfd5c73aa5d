"""The review columns: what a mapped table says of a row beside the columns of the input.

`COLUMNS` is the table of them. The table of results, the exports csv, xlsx and parquet,
`medcoder map show` and the terms of the service all read it, so a new column is a single entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from medcoder.mapping.project.records import Target, TermMapping
from medcoder.types import Attribute, Match

Value = str | float | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """A review column."""

    name: str
    value: Callable[[TermMapping], Value]
    numeric: bool = False
    in_results: bool = False  # in the table of results as well, not in exports alone
    listed: bool = True  # in lists of terms too; False for what those say in a way of their own


def chosen(mapping: TermMapping) -> Sequence[Target | Match]:
    """What a row is mapped to, or would be: the first candidate where nobody decided yet.

    Of a cell that is split, one for each part. Empty where the machine abstained, or a person
    decided that there is no match.
    """
    if mapping.status == "review":
        return mapping.leading
    return mapping.targets


def others(mapping: TermMapping) -> Iterator[Match]:
    """The candidates that were not chosen."""
    concepts = {target.concept for target in chosen(mapping)}
    return (match for match in mapping.candidates if match.concept not in concepts)


def said(mapping: TermMapping) -> str:
    """What the string says beside the thing, as taken off it, and why nothing is meant, in words.

    Of a cell that is split, each part that says more than a name.
    """
    if not mapping.said.parts:
        best = mapping.candidates[0].attributes if mapping.candidates else ()
        return _joined([*map(_attribute, best), mapping.said.reason])
    of_span = {match.span: match.attributes for match in reversed(mapping.candidates)}
    parts = []
    for part in mapping.said.parts:
        words = _joined([*map(_attribute, of_span.get(part.span, ())), part.reason])
        parts += [f"{part.text}: {words}"] if words else []
    return _joined(parts)


def _attribute(attribute: Attribute) -> str:
    word = attribute.kind if attribute.kind == "date" else attribute.value or attribute.kind
    return word if attribute.text.casefold() == word else f"{word} ({attribute.text})"


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words)))


def _confidence(mapping: TermMapping) -> float | None:
    concepts = {target.concept for target in chosen(mapping)}
    first = {match.concept: match.confidence for match in reversed(mapping.candidates)}
    known = [first[concept] for concept in concepts if concept in first]
    return round(min(known), 4) if known else None


def _of_target(part: Callable[[Target | Match], str]) -> Callable[[TermMapping], Value]:
    def value(mapping: TermMapping) -> str:
        return "|".join(map(part, chosen(mapping)))

    return value


def _of_decision(name: str) -> Callable[[TermMapping], Value]:
    def value(mapping: TermMapping) -> str:
        return str(getattr(mapping.decision, name)) if mapping.decision else ""

    return value


def _given(
    name: str, value: Callable[[TermMapping], Value], *, numeric: bool = False, results: bool = True
) -> Column:
    """A column that lists of terms have in a form of their own."""
    return Column(name=name, value=value, numeric=numeric, in_results=results, listed=False)


COLUMNS: tuple[Column, ...] = (
    _given("concept", _of_target(lambda target: target.concept)),
    _given("name", _of_target(lambda target: target.name)),
    _given("code", _of_target(lambda target: "|".join(code.curie for code in target.codes))),
    _given("confidence", _confidence, numeric=True),
    _given("status", lambda mapping: mapping.status),
    _given("said", said),
    _given("review", lambda mapping: mapping.review),
    _given("part", lambda mapping: mapping.part.text if mapping.part else "", results=False),
    _given("equivalence", _of_decision("equivalence"), results=False),
    _given("who", _of_decision("who"), results=False),
    _given("when", _of_decision("when"), results=False),
    _given("note", _of_decision("note"), results=False),
    _given("flag", lambda mapping: mapping.flag, results=False),
)


def result_columns(top: int) -> tuple[Column, ...]:
    """Columns of the table of results, for `top` candidates a row.

    >>> [column.name for column in result_columns(3)]
    ['concept', 'name', 'code', 'confidence', 'status', 'said', 'review', 'other_1', 'other_2']
    """
    return (*(column for column in COLUMNS if column.in_results), *map(_other, range(1, top)))


def export_columns(top: int) -> tuple[Column, ...]:
    """All of them: those of the results first."""
    return (*result_columns(top), *(column for column in COLUMNS if not column.in_results))


def listed_columns() -> tuple[Column, ...]:
    """Those that a list of terms adds to what it says anyway."""
    return tuple(column for column in COLUMNS if column.listed)


def unique_names(names: Iterable[str], taken: Sequence[str]) -> tuple[str, ...]:
    """The names, with "mapped_" before all of them if any is taken.

    >>> unique_names(["code", "status"], ["text", "code"])
    ('mapped_code', 'mapped_status')
    """
    names = tuple(names)
    while set(names) & set(taken):
        names = tuple(f"mapped_{name}" for name in names)
    return names


def values(mapping: TermMapping, columns: Iterable[Column]) -> tuple[Value, ...]:
    return tuple(column.value(mapping) for column in columns)


def _other(position: int) -> Column:
    def value(mapping: TermMapping) -> str:
        match = next(islice(others(mapping), position - 1, None), None)
        return f"{match.concept} {match.name} ({match.confidence:.2f})" if match else ""

    return _given(f"other_{position}", value)
