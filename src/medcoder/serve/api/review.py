"""Projects and what people decide on their terms."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, FiniteFloat

from medcoder.errors import NotFound
from medcoder.mapping import Project
from medcoder.mapping.columns import listed_columns, said, values
from medcoder.mapping.project.queue import Order, accept, changes, last_change, page
from medcoder.mapping.project.records import Equivalence, Event, Status, TermMapping
from medcoder.mapping.promise import promise
from medcoder.serve.api import (
    LATER,
    LENGTH,
    STRICT,
    Attributes,
    CodeOf,
    Key,
    Name,
    Note,
    PartOf,
    ProjectId,
    Reason,
    Review,
    Share,
    Span,
    Steps,
    Twins,
    Who,
    failures,
)
from medcoder.serve.api.calibrate import PromiseOf
from medcoder.serve.error_replies import Refused, decision_entry, failure_place
from medcoder.serve.state import Serving, serving
from medcoder.types import Code

router = APIRouter(prefix="/v1/projects", tags=["review"])
LOGGER = logging.getLogger("medcoder.serve")
_TERMS = 200  # of a page
_EVENTS = 500  # of a reply
# What a project says of itself; not where it lies, nor what the service keeps for itself.
_META = (
    "file", "format", "column", "code", "count", "language", "context", "source_vocabulary",
    "terminology", "model", "medcoder", "created", "updated", "top", "vocabularies", "targets",
    "split", "precision", "threshold", "expected", "unknown_context", "bad_rows", "rows",
    "complete", "recalibrations",
)  # fmt: skip


class Decide(BaseModel):
    """What a source term means."""

    model_config = STRICT

    concept: Annotated[Name | None, Field(description="null: there is no match.")]
    who: Annotated[Who, Field(examples=["ann"])]
    equivalence: Equivalence | None = None
    note: Note = ""
    expected_version: Annotated[
        int | None,
        Field(ge=0, le=LATER, description="The version that you saw: refused if it changed."),
    ] = None


class Undo(BaseModel):
    model_config = STRICT

    who: Annotated[Who, Field(examples=["ann"])]
    note: Note = ""
    expected_version: Annotated[int | None, Field(ge=0, le=LATER)] = None


class Accept(BaseModel):
    """Approve all undecided terms above a precision, or above a confidence."""

    model_config = STRICT

    who: Annotated[Who, Field(examples=["ann"])]
    precision: Annotated[FiniteFloat | None, Field(ge=0.5, lt=1)] = None
    threshold: Share | None = None
    note: Note = ""
    only_count: Annotated[bool, Field(description="Say how many they are, and leave them.")] = False


class ProjectOf(BaseModel):
    id: str
    name: str
    created: str
    complete: bool
    rows: int
    counts: dict[Status, dict[str, int]]


class Projects(BaseModel):
    projects: list[ProjectOf]


class Summary(ProjectOf):
    agreement: dict[str, int]
    promise: PromiseOf
    last_change: int
    header: list[str]
    meta: dict[str, Any]


class DecisionOf(BaseModel):
    concept: str | None
    name: str
    codes: list[CodeOf]
    equivalence: Equivalence
    who: str
    when: str
    note: str
    version: int


class CandidateOf(BaseModel):
    rank: int
    concept: str
    name: str
    codes: list[CodeOf]
    term: str
    cosine: float | None
    score: float
    confidence: float
    stage: str
    attributes: Attributes
    span: Span
    twins: Twins


class TermOf(BaseModel):
    """A source term with what the machine offers and what people decided."""

    key: int
    text: str
    code: str
    count: int
    language: str
    context: dict[str, str]
    fields: list[str]
    status: Status
    candidates: list[CandidateOf]
    decision: DecisionOf | None
    flag: str
    version: int
    said: Annotated[
        str,
        Field(
            description="What it says beside the thing, and why nothing is meant, in words.",
            examples=["history (h/o); left (L)"],
        ),
    ]
    review: Review
    reason: Reason
    steps: Steps
    parts: Annotated[list[PartOf], Field(description="Of a cell of several things.")]
    columns: Annotated[
        dict[str, str | float | None], Field(description="Further review columns, if there are.")
    ] = {}


class Terms(BaseModel):
    total: int
    terms: list[TermOf]


class EventOf(BaseModel):
    id: int
    action: Literal["decide", "undo", "flag"]
    key: int
    text: str
    code: str
    decision: DecisionOf | None
    flag: str
    who: str
    when: str
    note: str
    version: int


class Events(BaseModel):
    events: list[EventOf]


class Changes(Events):
    last: int


class Undone(BaseModel):
    event: EventOf
    term: TermOf


class Accepted(BaseModel):
    terms: int
    rows: int
    threshold: float | None


@router.get("", response_model=Projects, responses=failures())
def projects(request: Request) -> Any:
    """Projects that can be reviewed."""
    state = serving(request)
    found = []
    for id, file in state.projects().items():
        try:
            with Project.open(file, wait=state.settings.wait) as project:
                found.append(_described(state, id, project))
        except NotFound:
            continue  # cancelled this moment
        except Exception as error:  # of a file that is damaged, anything may come
            if id not in state.unlisted:
                LOGGER.warning("a project cannot be listed: %s", failure_place(error))
            state.unlisted.add(id)
    return {"projects": found}


@router.get("/{project}", response_model=Summary, responses=failures(404))
def summary(request: Request, project: ProjectId) -> Any:
    """Counts by status, what may be expected of automatic mappings, and what it was made of."""
    state = serving(request)
    with state.open(project) as opened:
        meta = opened.meta
        return _described(state, project, opened) | {
            "agreement": opened.agreement(),
            "promise": promise(opened).as_dict(),
            "last_change": last_change(opened),
            "header": opened.header,
            "meta": {name: meta[name] for name in _META if name in meta},
        }


@router.get(
    "/{project}/terms", response_model=Terms, response_model_exclude_unset=True,
    responses=failures(404),
)  # fmt: skip
def terms(
    request: Request,
    project: ProjectId,
    status: Status | None = None,
    sort: Order = "doubt",
    q: Annotated[str, Query(max_length=LENGTH, description="Text or code to find.")] = "",
    offset: Annotated[int, Query(ge=0, le=LATER)] = 0,
    limit: Annotated[int, Query(ge=1, le=_TERMS)] = 50,
) -> Any:
    """Source terms with candidates and decisions, those to look at first before others."""
    with serving(request).open(project) as opened:
        found = page(opened, status=status, by=sort, text=q, offset=offset, limit=limit)
    return {"total": found.total, "terms": [_term(mapping) for mapping in found.terms]}


@router.get(
    "/{project}/terms/{key}", response_model=TermOf, response_model_exclude_unset=True,
    responses=failures(404),
)  # fmt: skip
def one_term(request: Request, project: ProjectId, key: Key) -> Any:
    """A source term, named by the number of any of its rows."""
    with serving(request).open(project) as opened:
        return _term(opened.mapping(key))


@router.post(
    "/{project}/terms/{key}/decision", response_model=DecisionOf,
    responses=failures(404, 409),
)  # fmt: skip
def decide(request: Request, project: ProjectId, key: Key, made: Decide) -> Any:
    """Decide what a source term means; all rows that repeat it share the decision."""
    state = serving(request)
    with state.open(project) as opened:
        name, codes = _name_of(state, opened, key, made.concept)
        return decision_entry(
            opened.decide(
                key, made.concept, who=made.who, name=name, codes=codes, note=made.note,
                equivalence=made.equivalence, expected_version=made.expected_version,
            )
        )  # fmt: skip


@router.post(
    "/{project}/terms/{key}/undo", response_model=Undone,
    response_model_exclude_unset=True, responses=failures(404, 409),
)  # fmt: skip
def undo(request: Request, project: ProjectId, key: Key, asked: Undo) -> Any:
    """Go back to what stood before the decision on a term that stands now."""
    with serving(request).open(project) as opened:
        if opened.mapping(key).decision is None:
            raise _nothing_to_undo()
        return _undone(opened, key, asked)


@router.post(
    "/{project}/undo", response_model=Undone, response_model_exclude_unset=True,
    responses=failures(404, 409),
)  # fmt: skip
def undo_last(request: Request, project: ProjectId, asked: Undo) -> Any:
    """Undo the last decision of somebody that stands."""
    with serving(request).open(project) as opened:
        try:
            return _undone(opened, None, asked)
        except NotFound as error:
            raise _nothing_to_undo() from error


@router.get("/{project}/terms/{key}/history", response_model=Events, responses=failures(404))
def history(request: Request, project: ProjectId, key: Key) -> Any:
    """What was decided, undone and flagged on a term, oldest first."""
    with serving(request).open(project) as opened:
        return {"events": [_event(event) for event in opened.history(key)]}


@router.post("/{project}/accept", response_model=Accepted, responses=failures(404, 409))
def accept_all(request: Request, project: ProjectId, asked: Accept) -> Any:
    """Approve the first candidate of every undecided term above a precision or a confidence."""
    with serving(request).open(project) as opened:
        return accept(
            opened, who=asked.who, precision=asked.precision, threshold=asked.threshold,
            note=asked.note, only_count=asked.only_count,
        )  # fmt: skip


@router.get("/{project}/changes", response_model=Changes, responses=failures(404))
def news(
    request: Request,
    project: ProjectId,
    since: Annotated[int, Query(ge=0, le=LATER)] = 0,
    limit: Annotated[int, Query(ge=1, le=_EVENTS)] = _EVENTS,
) -> Any:
    """What others did after the event of that number; ask again with `last`."""
    with serving(request).open(project) as opened:
        found = changes(opened, since, limit)
    return {"events": [_event(event) for event in found], "last": found[-1].id if found else since}


def _described(state: Serving, id: str, project: Project) -> dict[str, Any]:
    meta = project.meta
    return {
        "id": id,
        "name": state.name_of(id),
        "created": str(meta.get("created", "")),
        "complete": bool(meta.get("complete")),
        "rows": int(meta.get("rows", 0)),
        "counts": project.counts(),
    }


def _name_of(
    state: Serving, project: Project, key: int, concept: str | None
) -> tuple[str, tuple[Code, ...]]:
    """Name and codes of a concept that is no candidate, from the graph."""
    candidates = project.mapping(key).candidates
    if concept is None or any(match.concept == concept for match in candidates):
        return "", ()
    kg = state.normalizer.kg
    if concept not in kg:
        raise Refused(404, "no_concept", "it is no candidate, and no concept of this index")
    return kg.preferred(concept), tuple(kg.codes_of(concept))


def _undone(project: Project, key: int | None, asked: Undo) -> dict[str, Any]:
    seen = asked.expected_version
    made = project.undo(key, who=asked.who, note=asked.note, expected_version=seen)
    return {"event": _event(made), "term": _term(project.mapping(made.row))}


def _nothing_to_undo() -> Refused:
    return Refused(409, "nothing_to_undo", "there is no decision to undo")


def _term(mapping: TermMapping) -> dict[str, Any]:
    row, more = mapping.row, listed_columns()
    columns = zip((column.name for column in more), values(mapping, more), strict=True)
    return ({"columns": dict(columns)} if more else {}) | {
        "key": row.number,
        "text": row.text,
        "code": row.code,
        "count": row.count,
        "language": row.language,
        "context": row.context,
        "fields": row.fields,
        "status": mapping.status,
        "candidates": mapping.ranked_candidates(),
        "decision": decision_entry(mapping.decision),
        "flag": mapping.flag,
        "version": mapping.version,
        "said": said(mapping),
        **mapping.said_entry(),
    }


def _event(event: Event) -> dict[str, Any]:
    entry = asdict(event) | {"decision": decision_entry(event.decision), "key": event.row}
    del entry["row"]
    return entry
