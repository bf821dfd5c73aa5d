"""Requests and replies of the service, as its description has them, with their limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

from medcoder.mapping.base import Equivalence, Role, Status

TEXTS = 1000  # strings of a request
LENGTH = 2000  # characters of a string
TOP = 100  # concepts for a string
NAMES = 50  # of a filter
WHO = 100  # characters of the name of a person
NOTE = 2000  # characters of a note
LATER = 2**53  # numbers beyond are no longer told apart by every reader of JSON

Text = Annotated[str, StringConstraints(max_length=LENGTH)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Names = Annotated[list[Name], Field(max_length=NAMES)]
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Who = Annotated[str, StringConstraints(pattern=r"[^\s]", max_length=WHO)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Ask(_Strict):
    """Strings to normalise."""

    texts: Annotated[list[Text], Field(max_length=TEXTS, examples=[["heart attack", "fiebre"]])]
    top: Annotated[int, Field(ge=1, le=TOP, description="Concepts for each string.")] = 5
    types: Annotated[Names, Field(description="Only concepts of these, by id or name.")] = []
    vocabularies: Annotated[Names, Field(description="Only concepts with a code in these.")] = []
    languages: Annotated[Names, Field(description="Only terms in these count.")] = []
    threshold: Annotated[
        Share | None, Field(description="Least confidence of a match; null: the index's own.")
    ] = None


class Embed(_Strict):
    texts: Annotated[list[Text], Field(max_length=TEXTS, examples=[["heart attack"]])]


class MapTable(_Strict):
    """A table to map: an upload and its columns."""

    upload: Annotated[Name, Field(description="Id that `POST /v1/uploads` gave.")]
    column: Annotated[Text, Field(description="Column of the strings to map.")]
    code: Annotated[Text, Field(description="Column of the local codes.")] = ""
    count: Annotated[Text, Field(description="Column that says how often a row occurs.")] = ""
    language: Annotated[Text, Field(description="Column of the language of the string.")] = ""
    context: Annotated[dict[Text, Role], Field(max_length=NAMES)] = {}
    top: Annotated[int, Field(ge=1, le=TOP)] = 5
    precision: Annotated[
        FiniteFloat, Field(ge=0.5, lt=1, description="To expect of automatic mappings.")
    ] = 0.98
    vocabularies: Names = []
    keep_bad_rows: bool = False
    name: Annotated[Text, Field(description="What the project is to be called.")] = ""


class Decide(_Strict):
    """What a source term means."""

    concept: Annotated[Name | None, Field(description="null: there is no match.")]
    who: Annotated[Who, Field(examples=["ann"])]
    equivalence: Equivalence | None = None
    note: Annotated[str, StringConstraints(max_length=NOTE)] = ""
    expected_version: Annotated[
        int | None,
        Field(ge=0, le=LATER, description="The version that you saw: refused if it changed."),
    ] = None


class Undo(_Strict):
    who: Annotated[Who, Field(examples=["ann"])]
    note: Annotated[str, StringConstraints(max_length=NOTE)] = ""
    expected_version: Annotated[int | None, Field(ge=0, le=LATER)] = None


class Accept(_Strict):
    """Approve all undecided terms above a precision, or above a confidence."""

    who: Annotated[Who, Field(examples=["ann"])]
    precision: Annotated[FiniteFloat | None, Field(ge=0.5, lt=1)] = None
    threshold: Share | None = None
    note: Annotated[str, StringConstraints(max_length=NOTE)] = ""
    only_count: Annotated[bool, Field(description="Say how many they are, and leave them.")] = False


class CodeOf(BaseModel):
    vocabulary: str
    code: str


class MatchOf(BaseModel):
    """A concept for a string, and why."""

    concept: str
    name: str
    codes: list[CodeOf]
    term: str
    language: str
    source: str
    cosine: float | None
    similarity: float | None
    score: float
    confidence: float
    stage: Literal["exact", "dense", "ngram"]


class AnswerOf(BaseModel):
    query: str
    matches: list[MatchOf]
    rejected: list[MatchOf]
    threshold: float


class Answers(BaseModel):
    answers: list[AnswerOf]


class TypeOf(BaseModel):
    id: str
    name: str


class TypedMatch(MatchOf):
    types: list[TypeOf]


class Found(BaseModel):
    matches: list[TypedMatch]
    accepted: bool
    threshold: float


class Embedded(BaseModel):
    width: int
    vectors: list[list[float]]


class NameOf(BaseModel):
    text: str
    source: str
    code: str
    kind: str


class RelationOf(BaseModel):
    relation: str
    direction: Literal["out", "in"]
    concept: str
    name: str


class ConceptOf(BaseModel):
    id: str
    name: str
    types: list[TypeOf]
    names: dict[str, list[NameOf]]
    codes: list[CodeOf]
    xrefs: list[CodeOf]
    flags: list[str]
    relations: list[RelationOf]
    relations_total: int


class NeighbourOf(BaseModel):
    concept: str
    name: str
    cosine: float
    x: float
    y: float


class Neighbours(BaseModel):
    concept: str
    neighbours: list[NeighbourOf]


class TypeCount(BaseModel):
    id: str
    name: str
    count: int


class VocabularyCount(BaseModel):
    name: str
    version: str
    title: str
    count: int


class LanguageCount(BaseModel):
    id: str
    count: int


class FiltersOf(BaseModel):
    types: list[TypeCount]
    vocabularies: list[VocabularyCount]
    languages: list[LanguageCount]


class UploadOf(BaseModel):
    upload: str
    name: str
    format: str
    columns: list[str]
    preview: list[list[str]]
    rows: int | None


class JobOf(BaseModel):
    id: str
    name: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    what: str
    done: int
    total: int
    created: str
    error: str | None
    project: str | None


class Jobs(BaseModel):
    jobs: list[JobOf]


class ProjectOf(BaseModel):
    id: str
    name: str
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


class Format(BaseModel):
    format: str
    ending: str


class Formats(BaseModel):
    formats: list[Format]


class Problem(BaseModel):
    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    limit: float | None = None


class Failure(BaseModel):
    """Every reply that is no success."""

    error: Problem


class Health(BaseModel):
    ok: bool


class Ready(BaseModel):
    ready: bool
