"""Projects and what people decide on their terms."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from medcoder.errors import NotFound
from medcoder.mapping import Project
from medcoder.mapping.project.queue import Order, accept, changes, last_change, page
from medcoder.mapping.project.records import Status
from medcoder.serve.refusals import Refused
from medcoder.serve.routes.common import Key, ProjectId, decision, event, failures, term
from medcoder.serve.shapes import review as shapes
from medcoder.serve.shapes.base import LATER, LENGTH
from medcoder.serve.state import Serving, serving
from medcoder.serve.watch import told
from medcoder.types import Code

router = APIRouter(prefix="/v1/projects", tags=["review"])
LOGGER = logging.getLogger("medcoder.serve")
_TERMS = 200  # of a page
_EVENTS = 500  # of a reply
# What a project says of itself; not where it lies, nor what the service keeps for itself.
_META = (
    "file", "format", "column", "code", "count", "language", "context", "source_vocabulary",
    "terminology", "model", "medcoder", "created", "updated", "top", "vocabularies", "precision",
    "threshold", "expected", "unknown_context", "bad_rows", "rows", "complete",
)  # fmt: skip


@router.get("", response_model=shapes.Projects, responses=failures())
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
                LOGGER.warning("a project cannot be listed: %s", told(error))
            state.unlisted.add(id)
    return {"projects": found}


@router.get("/{project}", response_model=shapes.Summary, responses=failures(404))
def summary(request: Request, project: ProjectId) -> Any:
    """Counts by status, what may be expected of automatic mappings, and what it was made of."""
    state = serving(request)
    with state.open(project) as opened:
        meta = opened.meta
        return _described(state, project, opened) | {
            "agreement": opened.agreement(),
            "last_change": last_change(opened),
            "header": opened.header,
            "meta": {name: meta[name] for name in _META if name in meta},
        }


@router.get(
    "/{project}/terms", response_model=shapes.Terms, response_model_exclude_unset=True,
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
    return {"total": found.total, "terms": [term(one) for one in found.terms]}


@router.get(
    "/{project}/terms/{key}", response_model=shapes.TermOf, response_model_exclude_unset=True,
    responses=failures(404),
)  # fmt: skip
def one_term(request: Request, project: ProjectId, key: Key) -> Any:
    """A source term, named by the number of any of its rows."""
    with serving(request).open(project) as opened:
        return term(opened.mapping(key))


@router.post(
    "/{project}/terms/{key}/decision", response_model=shapes.DecisionOf,
    responses=failures(404, 409),
)  # fmt: skip
def decide(request: Request, project: ProjectId, key: Key, made: shapes.Decide) -> Any:
    """Decide what a source term means; all rows that repeat it share the decision."""
    state = serving(request)
    with state.open(project) as opened:
        name, codes = _name_of(state, opened, key, made.concept)
        return decision(
            opened.decide(
                key, made.concept, who=made.who, name=name, codes=codes, note=made.note,
                equivalence=made.equivalence, expected_version=made.expected_version,
            )
        )  # fmt: skip


@router.post(
    "/{project}/terms/{key}/undo", response_model=shapes.Undone,
    response_model_exclude_unset=True, responses=failures(404, 409),
)  # fmt: skip
def undo(request: Request, project: ProjectId, key: Key, asked: shapes.Undo) -> Any:
    """Go back to what stood before the decision on a term that stands now."""
    with serving(request).open(project) as opened:
        if opened.mapping(key).decision is None:
            raise _nothing_to_undo()
        return _undone(opened, key, asked)


@router.post(
    "/{project}/undo", response_model=shapes.Undone, response_model_exclude_unset=True,
    responses=failures(404, 409),
)  # fmt: skip
def undo_last(request: Request, project: ProjectId, asked: shapes.Undo) -> Any:
    """Undo the last decision of somebody that stands."""
    with serving(request).open(project) as opened:
        try:
            return _undone(opened, None, asked)
        except NotFound as error:
            raise _nothing_to_undo() from error


@router.get("/{project}/terms/{key}/history", response_model=shapes.Events, responses=failures(404))
def history(request: Request, project: ProjectId, key: Key) -> Any:
    """What was decided, undone and flagged on a term, oldest first."""
    with serving(request).open(project) as opened:
        return {"events": [event(one) for one in opened.history(key)]}


@router.post("/{project}/accept", response_model=shapes.Accepted, responses=failures(404, 409))
def accept_all(request: Request, project: ProjectId, asked: shapes.Accept) -> Any:
    """Approve the first candidate of every undecided term above a precision or a confidence."""
    with serving(request).open(project) as opened:
        return accept(
            opened, who=asked.who, precision=asked.precision, threshold=asked.threshold,
            note=asked.note, only_count=asked.only_count,
        )  # fmt: skip


@router.get("/{project}/changes", response_model=shapes.Changes, responses=failures(404))
def news(
    request: Request,
    project: ProjectId,
    since: Annotated[int, Query(ge=0, le=LATER)] = 0,
    limit: Annotated[int, Query(ge=1, le=_EVENTS)] = _EVENTS,
) -> Any:
    """What others did after the event of that number; ask again with `last`."""
    with serving(request).open(project) as opened:
        found = changes(opened, since, limit)
    return {"events": [event(one) for one in found], "last": found[-1].id if found else since}


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
    if concept is None or any(one.concept == concept for one in candidates):
        return "", ()
    kg = state.normalizer.kg
    if concept not in kg:
        raise Refused(404, "no_concept", "it is no candidate, and no concept of this index")
    return kg.preferred(concept), tuple(kg.codes_of(concept))


def _undone(project: Project, key: int | None, asked: shapes.Undo) -> dict[str, Any]:
    made = project.undo(
        key, who=asked.who, note=asked.note, expected_version=asked.expected_version
    )  # fmt: skip
    return {"event": event(made), "term": term(project.mapping(made.row))}


def _nothing_to_undo() -> Refused:
    return Refused(409, "nothing_to_undo", "there is no decision to undo")
