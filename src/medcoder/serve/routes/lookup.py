"""Strings to concepts and to vectors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from medcoder.serve.routes.common import failures, match
from medcoder.serve.shapes.base import LENGTH, NAMES, TOP, Name
from medcoder.serve.shapes.lookup import Answers, Ask, Embed, Embedded, Found
from medcoder.serve.state import Options, serving
from medcoder.types import Answer

router = APIRouter(prefix="/v1", tags=["look up"])
Some = Annotated[list[Name], Query(max_length=NAMES)]


@router.post("/normalize", response_model=Answers, responses=failures(404))
async def normalize(asked: Ask, request: Request) -> Any:
    """The concepts that strings most likely mean, best first."""
    options = Options(
        top=asked.top, types=tuple(asked.types), vocabularies=tuple(asked.vocabularies),
        languages=tuple(asked.languages), threshold=asked.threshold,
    )  # fmt: skip
    found = await serving(request).answers.ask(asked.texts, options) if asked.texts else []
    # Not checked against the description once more, which would take longer than looking up.
    return JSONResponse({"answers": [_answer(one) for one in found]})


@router.get("/search", response_model=Found, responses=failures(404))
async def search(
    request: Request,
    q: Annotated[str, Query(max_length=LENGTH, examples=["heart attack"])],
    top: Annotated[int, Query(ge=1, le=TOP)] = 10,
    types: Some = [],  # noqa: B006
    vocabularies: Some = [],  # noqa: B006
    languages: Some = [],  # noqa: B006
) -> Any:
    """Candidates for a string as it is typed, accepted or not."""
    options = Options(
        top=top, types=tuple(types), vocabularies=tuple(vocabularies), languages=tuple(languages)
    )
    state = serving(request)
    [found] = await state.answers.ask([q], options)
    kg = state.normalizer.kg
    return JSONResponse(
        {
            "matches": [
                match(one) | {"types": [kind._asdict() for kind in kg.types_of(one.concept)]}
                for one in found.candidates
            ],
            "accepted": bool(found.matches),
            "threshold": found.threshold,
        }
    )


@router.post("/embed", response_model=Embedded, responses=failures())
async def embed(asked: Embed, request: Request) -> Any:
    """Unit vectors of strings."""
    state = serving(request)
    width = state.normalizer.encoder.width
    found = await state.vectors.ask(asked.texts, None) if asked.texts else []
    return JSONResponse({"width": width, "vectors": [vector.tolist() for vector in found]})


def _answer(one: Answer) -> dict[str, Any]:
    return {
        "query": one.query,
        "matches": [match(found) for found in one.matches],
        "rejected": [match(found) for found in one.rejected],
        "threshold": one.threshold,
    }
