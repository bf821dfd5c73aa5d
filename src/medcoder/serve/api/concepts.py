"""Concepts: their names, codes and relations, and those near them."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from medcoder.kg import KG
from medcoder.serve.api import CodeOf, Targets, failures
from medcoder.serve.api.lookup import TypeOf
from medcoder.serve.error_replies import Refused
from medcoder.serve.state import serving

router = APIRouter(prefix="/v1", tags=["concepts"])
_DENSE: tuple[str, ...] = ("dense",)
Id = Annotated[str, Path(max_length=200, examples=["HP:0001658"])]


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
    targets: Annotated[list[Targets], Field(description="Which of them the index tells apart.")]


@router.get("/concepts/{id}", response_model=ConceptOf, responses=failures(404))
def concept(
    request: Request,
    id: Id,
    relations: Annotated[int, Query(ge=0, le=2000, description="Relations at most.")] = 200,
) -> Any:
    """Names by language, types, codes, cross-references and relations of a concept."""
    kg = serving(request).normalizer.kg
    number = _known(kg, id)
    id = kg.terms.id(number)
    names: dict[str, list[dict[str, str]]] = {}
    for term in kg.terms_of(id):
        entry = {"text": term.text, "source": term.vocabulary, "code": term.code, "kind": term.kind}
        names.setdefault(term.language, []).append(entry)
    return {
        "id": id,
        "name": kg.preferred(id),
        "types": [kind._asdict() for kind in kg.types_of(id)],
        "names": names,
        "codes": [code._asdict() for code in kg.codes_of(id)],
        "xrefs": [code._asdict() for code in kg.xrefs_of(id)],
        "flags": kg.flags_of(id),
        "relations": _relations(kg, id, relations),
        "relations_total": len(kg.edges.outgoing(number)) + len(kg.edges.incoming(number)),
    }


@router.get("/concepts/{id}/neighbours", response_model=Neighbours, responses=failures(404))
def neighbours(
    request: Request,
    id: Id,
    top: Annotated[int, Query(ge=1, le=100)] = 30,
) -> Any:
    """The concepts whose terms lie nearest to the name of one, itself first, on a map of 2-D."""
    engine = serving(request).engine
    normalizer = engine.normalizer
    id = normalizer.kg.terms.id(_known(normalizer.kg, id))
    name = normalizer.kg.preferred(id)
    answer = engine.call(lambda: normalizer.normalize(name, top=top + 1, stages=_DENSE))
    near = [match for match in answer.candidates if match.concept != id][:top]
    concepts = [id, *(match.concept for match in near)]
    positions = projected(engine.call(lambda: normalizer.name_vectors(concepts))).tolist()
    neighbours = [
        (id, name, 1.0),
        *((match.concept, match.name, min(match.cosine or 0.0, 1.0)) for match in near),
    ]
    return {
        "concept": id,
        "neighbours": [
            {"concept": concept, "name": name, "cosine": cosine, "x": x, "y": y}
            for (concept, name, cosine), (x, y) in zip(neighbours, positions, strict=True)
        ],
    }


@router.get("/filters", response_model=FiltersOf, responses=failures())
def filters(request: Request) -> Any:
    """Semantic types, vocabularies and languages that there are, and how often."""
    state = serving(request)
    kg = state.normalizer.kg
    types = np.bincount(kg.type_numbers, minlength=len(kg.types)).tolist()
    languages, vocabularies = (
        np.bincount(kg.terms.info[:, column], minlength=len(names)).tolist()
        for column, names in ((0, kg.languages), (1, kg.vocabularies))
    )
    counts = Counter(dict(enumerate(types)))
    return {
        "types": [
            kg.types[number]._asdict() | {"count": count} for number, count in counts.most_common()
        ],
        "vocabularies": [
            vocabulary._asdict() | {"count": count}
            for vocabulary, count in zip(kg.vocabularies, vocabularies, strict=True)
        ],
        "languages": [
            {"id": tag, "count": count} for tag, count in zip(kg.languages, languages, strict=True)
        ],
        "targets": state.targets(),
    }


def projected(vectors: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The two directions in which vectors differ most, (n, 2), the farthest at 1.

    Directions are turned so that the entry that is largest without its sign is positive: the same
    vectors get the same positions every time.

    >>> projected(np.array([[0.0, 0, 0], [4, 0, 0], [0, 2, 0], [4, 2, 0]])).round(6).tolist()
    [[-1.0, -0.5], [1.0, -0.5], [-1.0, 0.5], [1.0, 0.5]]
    """
    centred = np.asarray(vectors, np.float64)
    centred = centred - centred.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:2]
    largest = np.abs(directions).argmax(1)
    directions = directions * np.sign(directions[np.arange(len(directions)), largest])[:, None]
    positions = np.zeros((len(centred), 2))
    positions[:, : len(directions)] = centred @ directions.T
    far = np.abs(positions).max()
    return positions / far if far > 0 else positions


def _known(kg: KG, id: str) -> int:
    if id not in kg:
        raise Refused(404, "no_concept", "there is no such concept in this index")
    return kg.index(id)


def _relations(kg: KG, id: str, limit: int) -> list[dict[str, str]]:
    outgoing = kg.neighbours(id, direction="out", limit=limit)
    incoming = kg.neighbours(id, direction="in", limit=limit)
    relations = [("out", edge.relation, edge.tail) for edge in outgoing]
    relations += [("in", edge.relation, edge.head) for edge in incoming]
    return [
        {
            "relation": relation,
            "direction": direction,
            "concept": other,
            "name": kg.preferred(other),
        }
        for direction, relation, other in relations[:limit]
    ]
