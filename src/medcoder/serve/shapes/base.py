"""What shapes are made of: limits, fields, codes, failures."""

from __future__ import annotations

from typing import Annotated

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
STRICT = ConfigDict(extra="forbid")  # of requests: a field with a slip in its name is an error
Who = Annotated[str, StringConstraints(pattern=r"[^\s]", max_length=WHO)]


class CodeOf(BaseModel):
    vocabulary: str
    code: str


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
