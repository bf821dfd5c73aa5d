"""The interface: a file for each part of it, with its routes and the schemas of what they take.

Here is what those share: limits, fields, codes, and the errors that a route may give.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

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
Note = Annotated[str, StringConstraints(max_length=NOTE)]
Key = Annotated[int, Path(ge=1, le=LATER, description="Number of a row of the term.")]
ProjectId = Annotated[str, Path(max_length=100)]
STRICT = ConfigDict(extra="forbid")  # of requests: a field with a slip in its name is an error

_MEANINGS = {
    400: "The body cannot be read",
    401: "The token is missing or wrong",
    404: "There is no such thing",
    408: "Too slow to come",
    409: "Somebody else decided meanwhile, or it cannot be done now",
    413: "Too large",
    414: "The address is too long",
    415: "Not a format that is read",
    422: "Not as it should be",
    429: "Too many at a time: come back after Retry-After",
    431: "The head of the request is too large",
    503: "Loading, or another process writes: come back after Retry-After",
    507: "No room is left on the disk",
}


Targets = Literal["any", "leaf", "billable", "standard"]  # those of `medcoder.kg.masks`


class CodeOf(BaseModel):
    vocabulary: str
    code: str


class AttributeOf(BaseModel):
    """What a string says of a thing beside its name."""

    kind: Annotated[str, Field(examples=["side"])]
    value: Annotated[str, Field(description="Empty where the kind says all.", examples=["left"])]
    text: Annotated[str, Field(description="As it stands in the string.", examples=["(L)"])]


# What look-ups and terms of projects say alike.
Span = Annotated[
    tuple[int, int] | None,
    Field(
        description="Where it starts in the string, and where it ends; null: all of it.",
        examples=[[0, 12]],
    ),
]
Attributes = Annotated[
    list[AttributeOf], Field(description="What was taken off the string for the look-up.")
]
Twins = Annotated[
    list[str],
    Field(
        description="Ids of the same thing in other vocabularies; `codes` has their codes.",
        examples=[["ICD10CM:J45"]],
    ),
]
Reason = Annotated[
    str, Field(description="Why nothing can be meant.", examples=["negated (denies)"])
]
Review = Annotated[
    str,
    Field(
        description="Why a person must look at it, however sure it is.", examples=["in doubt (r/o)"]
    ),
]
Steps = Annotated[
    list[str],
    Field(
        description="What was done with the string before it was looked up.",
        examples=[["took off 'h/o': history"]],
    ),
]
Verdict = Annotated[
    Literal["match", "review", "none"],
    Field(description="A match, something for a person to look at, or nothing."),
]


class Problem(BaseModel):
    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    limit: float | None = None


class Failure(BaseModel):
    """Every reply that is no success."""

    error: Problem


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for the description; some every route has."""
    wanted = sorted({400, 401, 408, 413, 414, 422, 429, 431, 503, *statuses})
    return {status: {"model": Failure, "description": _MEANINGS[status]} for status in wanted}


class PartOf(BaseModel):
    """One of several things in a cell, and what the machine says of it."""

    span: tuple[int, int]
    text: str
    status: Verdict
    reason: Reason
    review: Review
    confidence: float
    candidates: Annotated[int, Field(description="How many there are, with its span.")]
