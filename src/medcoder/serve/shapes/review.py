"""Projects, their terms, and what people decide; the formats that projects are written in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, FiniteFloat, StringConstraints

from medcoder.mapping.project.records import Equivalence, Status
from medcoder.serve.shapes.base import LATER, NOTE, STRICT, CodeOf, Name, Share, Who


class Decide(BaseModel):
    """What a source term means."""

    model_config = STRICT

    concept: Annotated[Name | None, Field(description="null: there is no match.")]
    who: Annotated[Who, Field(examples=["ann"])]
    equivalence: Equivalence | None = None
    note: Annotated[str, StringConstraints(max_length=NOTE)] = ""
    expected_version: Annotated[
        int | None,
        Field(ge=0, le=LATER, description="The version that you saw: refused if it changed."),
    ] = None


class Undo(BaseModel):
    model_config = STRICT

    who: Annotated[Who, Field(examples=["ann"])]
    note: Annotated[str, StringConstraints(max_length=NOTE)] = ""
    expected_version: Annotated[int | None, Field(ge=0, le=LATER)] = None


class Accept(BaseModel):
    """Approve all undecided terms above a precision, or above a confidence."""

    model_config = STRICT

    who: Annotated[Who, Field(examples=["ann"])]
    precision: Annotated[FiniteFloat | None, Field(ge=0.5, lt=1)] = None
    threshold: Share | None = None
    note: Annotated[str, StringConstraints(max_length=NOTE)] = ""
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


class ConceptTable(BaseModel):
    concepts: str


class Format(BaseModel):
    format: str
    ending: str


class Formats(BaseModel):
    formats: list[Format]
