"""Strings to concepts and vectors, and what concepts are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from medcoder.serve.shapes.base import STRICT, TEXTS, TOP, CodeOf, Names, Share, Text


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
