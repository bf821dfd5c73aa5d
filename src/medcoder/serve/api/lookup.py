"""Strings to concepts and to vectors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from medcoder.kg import KG
from medcoder.normalize.stages import STAGES
from medcoder.serve.api import (
    LENGTH,
    NAMES,
    STRICT,
    TEXTS,
    TOP,
    Attributes,
    CodeOf,
    Name,
    Names,
    Reason,
    Review,
    Share,
    Span,
    Steps,
    Targets,
    Text,
    Twins,
    Verdict,
    failures,
)
from medcoder.serve.state import LookupOptions, serving
from medcoder.types import Answer

router = APIRouter(prefix="/v1", tags=["look up"])
Filter = Annotated[list[Name], Query(max_length=NAMES)]
TARGETS = "Only such concepts: leaf, with none below it; billable, of ICD-10-CM; standard, of OMOP."
SPLIT = "Answer several things in a string one by one, see `parts`."


def _list_stages(schema: dict[str, Any]) -> None:
    schema["enum"] = list(STAGES)


StageName = Annotated[str, Field(json_schema_extra=_list_stages)]


class Ask(BaseModel):
    """Strings to normalise."""

    model_config = STRICT

    texts: Annotated[list[Text], Field(max_length=TEXTS, examples=[["heart attack", "fiebre"]])]
    top: Annotated[int, Field(ge=1, le=TOP, description="Concepts for each string.")] = 5
    types: Annotated[Names, Field(description="Only concepts of these, by id or name.")] = []
    vocabularies: Annotated[Names, Field(description="Only concepts with a code in these.")] = []
    languages: Annotated[Names, Field(description="Only terms in these count.")] = []
    threshold: Annotated[
        Share | None, Field(description="Least confidence of a match; null: the index's own.")
    ] = None
    targets: Annotated[Targets, Field(description=TARGETS)] = "any"
    split: Annotated[bool, Field(description=SPLIT)] = False


class Embed(BaseModel):
    model_config = STRICT

    texts: Annotated[list[Text], Field(max_length=TEXTS, examples=[["heart attack"]])]


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
    stage: StageName
    attributes: Attributes
    span: Span
    twins: Twins


class AnswerOf(BaseModel):
    """The answer for a string, or for a part of one."""

    query: str
    status: Verdict
    matches: list[MatchOf]
    rejected: list[MatchOf]
    threshold: float
    reason: Reason
    review: Review
    steps: Steps
    parts: Annotated[
        list[AnswerOf],
        Field(description="Of several things in a string; `matches` has the best of each then."),
    ]
    span: Span


class Answers(BaseModel):
    answers: list[AnswerOf]


class TypeOf(BaseModel):
    id: str
    name: str


class TypedMatch(MatchOf):
    types: list[TypeOf]


class Found(BaseModel):
    """The candidates for a string, or for a part of one, accepted or not."""

    query: str
    status: Verdict
    matches: list[TypedMatch]
    accepted: bool
    threshold: float
    reason: Reason
    review: Review
    steps: Steps
    parts: Annotated[list[Found], Field(description="Of several things in a string.")]
    span: Span


class Embedded(BaseModel):
    width: int
    vectors: list[list[float]]


@router.post("/normalize", response_model=Answers, responses=failures(404))
async def normalize(asked: Ask, request: Request) -> Any:
    """The concepts that strings most likely mean, best first."""
    options = LookupOptions(
        top=asked.top,
        types=tuple(asked.types),
        vocabularies=tuple(asked.vocabularies),
        languages=tuple(asked.languages),
        threshold=asked.threshold,
        targets=asked.targets,
        split=asked.split,
    )
    state = serving(request)
    state.check_targets(asked.targets)
    answers = await state.look_up(asked.texts, options)
    # Not checked against the description once more, which would take longer than looking up.
    return JSONResponse({"answers": [answer.as_dict() for answer in answers]})


@router.get("/search", response_model=Found, responses=failures(404))
async def search(
    request: Request,
    q: Annotated[str, Query(max_length=LENGTH, examples=["heart attack"])],
    top: Annotated[int, Query(ge=1, le=TOP)] = 10,
    types: Filter = [],  # noqa: B006
    vocabularies: Filter = [],  # noqa: B006
    languages: Filter = [],  # noqa: B006
    targets: Annotated[Targets, Query(description=TARGETS)] = "any",
    split: Annotated[bool, Query(description=SPLIT)] = False,
) -> Any:
    """Candidates for a string as it is typed, accepted or not."""
    options = LookupOptions(
        top=top, types=tuple(types), vocabularies=tuple(vocabularies), languages=tuple(languages),
        targets=targets, split=split,
    )  # fmt: skip
    state = serving(request)
    state.check_targets(targets)
    [answer] = await state.look_up([q], options)
    return JSONResponse(_found(answer, state.normalizer.kg))


def _found(answer: Answer, kg: KG) -> dict[str, Any]:
    entry = answer.as_dict()
    del entry["rejected"]
    return entry | {
        "matches": [
            match.as_dict() | {"types": [kind._asdict() for kind in kg.types_of(match.concept)]}
            for match in answer.candidates
        ],
        "accepted": bool(answer.matches),
        "parts": [_found(part, kg) for part in answer.parts],
    }


@router.post("/embed", response_model=Embedded, responses=failures())
async def embed(asked: Embed, request: Request) -> Any:
    """Unit vectors of strings."""
    state = serving(request)
    width = state.normalizer.encoder.width
    vectors = await state.vectors.ask(asked.texts, None) if asked.texts else []
    return JSONResponse({"width": width, "vectors": [vector.tolist() for vector in vectors]})
