"""A project as one table: the columns of the input, then ours. For csv, xlsx and parquet.

Those of the results come first and are called the same; decisions follow.
"""

from __future__ import annotations

from typing import NamedTuple

from medcoder.mapping import results
from medcoder.mapping.base import Mapping
from medcoder.mapping.store import Project

DECIDED = ("equivalence", "who", "when", "note", "flag")
Value = str | float | None


class Columns(NamedTuple):
    """Names of the columns; `top` candidates a row."""

    given: tuple[str, ...]  # of the input
    ours: tuple[str, ...]
    top: int


def columns_of(project: Project) -> Columns:
    """The columns of a project's table; ours get "mapped_" before them if one is taken."""
    given, top = project.header, int(project.meta["top"])
    ours = (*results.columns((), top), *DECIDED)
    while set(ours) & set(given):
        ours = tuple(f"mapped_{name}" for name in ours)
    return Columns(given, ours, top)


def values_of(mapping: Mapping, columns: Columns) -> list[Value]:
    """One row of the table."""
    width = len(columns.given)
    fields = [*mapping.row.fields[:width], *[""] * (width - len(mapping.row.fields))]
    decision = mapping.decision
    made = (decision.equivalence, decision.who, decision.when, decision.note) if decision else ()
    decided = [*(made or ("",) * 4), mapping.flag]
    return [*fields, *results.cells(mapping, columns.top), *decided]
