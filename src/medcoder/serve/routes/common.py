"""What routes share: replies, and the errors they may give."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Path

from medcoder.mapping.columns import listed_columns, values
from medcoder.mapping.project.records import Event, TermMapping
from medcoder.serve.refusals import coded
from medcoder.serve.shapes.base import LATER, Failure
from medcoder.types import Match

Key = Annotated[int, Path(ge=1, le=LATER, description="Number of a row of the term.")]
ProjectId = Annotated[str, Path(max_length=100)]

_SAYS = {
    400: "The body cannot be read",
    401: "The token is missing or wrong",
    404: "There is no such thing",
    409: "Somebody else decided meanwhile, or it cannot be done now",
    413: "Too large",
    415: "Not a format that is read",
    422: "Not as it should be",
    429: "Too many at a time",
    503: "Loading, or too many requests: come back after Retry-After",
    507: "No room is left on the disk",
}


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for the description; some every route has."""
    wanted = sorted({400, 401, 413, 422, 503, *statuses})
    return {status: {"model": Failure, "description": _SAYS[status]} for status in wanted}


def match(one: Match) -> dict[str, Any]:
    return {
        "concept": one.concept,
        "name": one.name,
        "codes": coded(one.codes),
        "term": one.term,
        "language": one.language,
        "source": one.vocabulary,
        "cosine": one.cosine,
        "similarity": one.similarity,
        "score": one.score,
        "confidence": one.confidence,
        "stage": one.stage,
    }


def term(one: TermMapping) -> dict[str, Any]:
    row, more = one.row, listed_columns()
    columns = zip((column.name for column in more), values(one, more), strict=True)
    return ({"columns": dict(columns)} if more else {}) | {
        "key": row.number,
        "text": row.text,
        "code": row.code,
        "count": row.count,
        "language": row.language,
        "context": row.context,
        "fields": row.fields,
        "status": one.status,
        "candidates": one.ranked_candidates(),
        "decision": _with_codes(one.decision),
        "flag": one.flag,
        "version": one.version,
    }


def event(one: Event) -> dict[str, Any]:
    said = asdict(one) | {"decision": _with_codes(one.decision), "key": one.row}
    del said["row"]
    return said


def decision(made: Any) -> dict[str, Any]:
    found = _with_codes(made)
    assert found is not None
    return found


def _with_codes(one: Any) -> dict[str, Any] | None:
    return None if one is None else asdict(one) | {"codes": coded(one.codes)}
