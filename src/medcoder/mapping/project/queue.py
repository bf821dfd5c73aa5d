"""The queue of those who review a project: what to look at first, and what others did.

The command line and the service list terms in the orders of this file.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from medcoder.mapping.auto_threshold import auto_threshold
from medcoder.mapping.project import Project, queries
from medcoder.mapping.project.records import STATUSES, Event, Status, TermMapping, unknown
from medcoder.mapping.project.schema import guarded

Order = Literal["doubt", "count", "confidence", "row"]
ORDERS: tuple[Order, ...] = get_args(Order)
# doubt: how many rows are to be expected wrong if the first candidate is taken
_BY = {
    "doubt": "t.count * (1 - s.confidence) DESC, t.id",
    "count": "t.count DESC, t.id",
    "confidence": "s.confidence, t.id",
    "row": "t.id",
}
_FROM = "FROM terms t JOIN strings s ON s.id = t.string"
# A decision is one concept: cells that mean several are left as they are.
_OPEN = f"t.decision IS NULL AND {queries.TRUSTED} AND s.together = 1 AND s.confidence >= ?"


class Page(NamedTuple):
    """Some source terms in order, and how many there are."""

    total: int
    terms: tuple[TermMapping, ...]


def page(
    project: Project,
    *,
    status: Status | None = None,
    by: Order = "doubt",
    text: str = "",
    offset: int = 0,
    limit: int = 50,
) -> Page:
    """Source terms of a status whose text or code has `text` in it, in an order."""
    if status is not None and status not in STATUSES:
        raise unknown("status", status, STATUSES)
    if by not in ORDERS:
        raise unknown("order", by, ORDERS)
    conditions, values = ["1"], list[Any]()
    if status is not None:
        conditions.append(f"{queries.STATUS} = ?")
        values.append(status)
    if text:
        conditions.append("(instr(lower(t.text), lower(?)) OR instr(lower(t.code), lower(?)))")
        values += [text, text]
    where = "WHERE " + " AND ".join(conditions)
    with project.snapshot() as base:
        [total] = base.execute(f"SELECT count(*) {_FROM} {where}", values).fetchone()
        query = f"SELECT t.id, t.first {_FROM} {where} ORDER BY {_BY[by]} LIMIT ? OFFSET ?"
        rows = base.execute(query, [*values, limit, offset]).fetchall()
        terms: dict[int, TermMapping] = {}
        for start in range(0, len(rows), queries.VARIABLES):
            some = [number for number, _ in rows[start : start + queries.VARIABLES]]
            marks = f"WHERE t.id IN ({','.join('?' * len(some))})"
            for mapping in queries.mappings(base, terms=True, where=marks, values=some):
                terms[mapping.row.number] = mapping
    return Page(int(total), tuple(terms[first] for _, first in rows))


def changes(project: Project, since: int = 0, limit: int = 500) -> tuple[Event, ...]:
    """What was decided, undone and flagged after the event of that number, oldest first."""
    where = "WHERE v.id > ? AND v.id <= (SELECT ifnull(max(id), 0) FROM (SELECT id FROM events "
    where += "WHERE id > ? ORDER BY id LIMIT ?))"
    with project.snapshot() as base:
        return tuple(queries.events(base, where, [since, since, limit]))


def last_change(project: Project) -> int:
    """The number of the last event; 0 if there is none."""
    with guarded(project.path):
        row = project.base.execute("SELECT ifnull(max(id), 0) FROM events").fetchone()
    return int(row[0])


def accept(
    project: Project,
    *,
    who: str,
    precision: float | None = None,
    threshold: float | None = None,
    note: str = "",
    only_count: bool = False,
) -> dict[str, Any]:
    """Approve the first candidate of every undecided term that is likely enough, all or none.

    Terms that a person must look at are left out, and cells that mean several things.

    precision: to expect of those with such a confidence, as `auto_threshold` has it
    threshold: least confidence, instead
    only_count: say how many they are, and leave them

    Gives the number of terms and rows, and the threshold, which is None where nothing promises
    the precision.
    """
    if threshold is None:
        threshold = auto_threshold(project, precision if precision is not None else 0.98)[
            "threshold"
        ]
    if threshold is None:
        return {"terms": 0, "rows": 0, "threshold": None}
    with project.transaction():
        where, values = f"WHERE {_OPEN}", [threshold]
        query = f"SELECT count(*), ifnull(sum(t.rows), 0) {_FROM} {where}"
        terms, rows = project.base.execute(query, values).fetchone()
        if not only_count:
            mappings = list(queries.mappings(project.base, terms=True, where=where, values=values))
            for mapping in mappings:
                best = mapping.candidates[0]
                project.decide(
                    mapping.row.number,
                    best.concept,
                    who=who,
                    note=note,
                    expected_version=mapping.version,
                    bulk=True,
                )
    return {"terms": int(terms), "rows": int(rows), "threshold": threshold}
