"""Tables that are sent, and the jobs that map them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, FiniteFloat

from medcoder.mapping.project.records import Role
from medcoder.serve.shapes.base import NAMES, STRICT, TOP, Name, Names, Text


class MapTable(BaseModel):
    """A table to map: an upload and its columns."""

    model_config = STRICT

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
