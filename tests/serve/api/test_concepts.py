"""Concepts, their neighbours and filters are those of the graph."""

import numpy as np

from medcoder.serve.api.concepts import projected
from support.served import client, made


def test_a_concept(rest, normalizer):
    kg = normalizer.kg
    found = rest.get("/v1/concepts/C001").json()
    assert (found["id"], found["name"]) == ("C001", kg.preferred("C001"))
    texts = {(tag, one["text"]) for tag, some in found["names"].items() for one in some}
    assert texts == {(term.language, term.text) for term in kg.terms_of("C001")}
    assert found["types"] == [{"id": "T184", "name": "Sign or Symptom"}]
    assert found["xrefs"] == [{"vocabulary": "LNC", "code": "1-8"}]
    assert found["relations_total"] == 0
    assert rest.get("/v1/concepts/nope").json()["error"]["code"] == "no_concept"


def test_relations_of_a_concept(toy_kg, bag, calibration, tmp_path):
    from medcoder.normalize.build import build

    build(toy_kg, bag, tmp_path / "toy.index", calibration=calibration)
    with client(made(tmp_path / "toy.index", tmp_path / "serve")) as rest:
        found = rest.get("/v1/concepts/C0018799").json()
        edges = toy_kg.neighbours("C0018799")
        said = {
            (("C0018799", one["relation"], one["concept"]) if one["direction"] == "out"
             else (one["concept"], one["relation"], "C0018799"))
            for one in found["relations"]
        }  # fmt: skip
        assert said == {tuple(edge) for edge in edges}
        assert found["relations_total"] == len(edges) == 5
        names = {one["concept"]: one["name"] for one in found["relations"]}
        assert names["C0018787"] == "Heart"
        few = rest.get("/v1/concepts/C0018799", params={"relations": 2}).json()
        assert (len(few["relations"]), few["relations_total"]) == (2, 5)


def test_neighbours_lie_where_their_vectors_do(rest, normalizer):
    found = rest.get("/v1/concepts/C001/neighbours", params={"top": 6}).json()["neighbours"]
    assert found[0]["concept"] == "C001"
    assert len({one["concept"] for one in found}) == len(found) == 7
    cosines = [one["cosine"] for one in found[1:]]
    assert cosines == sorted(cosines, reverse=True)
    places = projected(normalizer.encoder.encode([one["name"] for one in found]))
    # The index keeps vectors in half precision.
    assert np.allclose([[one["x"], one["y"]] for one in found], places, atol=1e-3)


def test_projection_is_that_of_principal_components():
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(3).normal(size=(20, 6)) * [5, 4, 1, 1, 1, 1]
    ours, theirs = projected(vectors), PCA(2).fit_transform(vectors)
    theirs = theirs / np.abs(theirs).max()
    for column in range(2):
        sign = np.sign(ours[:, column] @ theirs[:, column])
        assert np.allclose(ours[:, column], sign * theirs[:, column])
    assert projected(np.ones((3, 4))).tolist() == [[0, 0]] * 3
    assert projected(np.ones((1, 4))).tolist() == [[0, 0]]


def test_filters(rest, normalizer):
    kg = normalizer.kg
    found = rest.get("/v1/filters").json()
    counts = {one["id"]: one["count"] for one in found["types"]}
    assert counts == {
        kind.id: sum(kind in kg.types_of(concept) for concept in kg) for kind in kg.types
    }
    terms = [term for concept in kg for term in kg.terms_of(concept)]
    for one in found["languages"]:
        assert one["count"] == sum(term.language == one["id"] for term in terms)
    for one in found["vocabularies"]:
        assert one["count"] == sum(term.vocabulary == one["name"] for term in terms)
