"""Strings looked up over REST get what the library answers."""

from typing import get_args

import numpy as np
import pytest

from medcoder.kg.masks import TARGETS
from medcoder.serve.api import Targets
from support.many import QUERIES


@pytest.mark.parametrize(
    "options",
    [{}, {"top": 2, "types": ["T047"]}, {"languages": ["es"], "vocabularies": ["MSH", "ICD10CM"]},
     {"threshold": 0.0}, {"split": True, "targets": "leaf"}],
    ids=str,
)  # fmt: skip
def test_normalizing_is_that_of_the_library(rest, normalizer, options):
    found = rest.post("/v1/normalize", json={"texts": list(QUERIES), **options}).json()["answers"]
    for said, answer in zip(found, normalizer.normalize_many(QUERIES, **options), strict=True):
        assert said == answer.as_dict()


def test_searching(rest, normalizer):
    found = rest.get("/v1/search", params={"q": "kidny desease", "top": 3, "types": "T047"}).json()
    answer = normalizer.normalize("kidny desease", top=3, types=["T047"])
    types = [one.pop("types") for one in found["matches"]]
    assert found["matches"] == [one.as_dict() for one in answer.candidates]
    assert found["accepted"] is bool(answer.matches)
    assert all({"id": "T047", "name": "Disease or Syndrome"} in one for one in types)
    assert rest.get("/v1/search", params={"q": ""}).json()["matches"] == []


CELL = "Heart attack;  rash (L)"


def test_what_a_string_says_and_its_parts(rest, normalizer):
    """The keys of `Answer.as_dict`, all the way down."""
    answer = normalizer.normalize(CELL, split=True)
    sent = {"texts": [CELL], "split": True}
    [said] = rest.post("/v1/normalize", json=sent).json()["answers"]
    assert said == answer.as_dict()
    assert [part["span"] for part in said["parts"]] == [[0, 12], [15, 23]]
    assert said["matches"][1]["attributes"] == [{"kind": "side", "value": "left", "text": "(L)"}]
    [whole] = rest.post("/v1/normalize", json={"texts": [CELL]}).json()["answers"]
    assert whole["parts"] == []
    found = rest.get("/v1/search", params={"q": CELL, "split": True, "top": 5}).json()
    assert found.keys() == said.keys() - {"rejected"} | {"accepted"}
    for key in ("query", "status", "review", "steps", "span", "reason", "threshold"):
        assert found[key] == said[key]
    assert [part["span"] for part in found["parts"]] == [part["span"] for part in said["parts"]]
    for part, expected in zip(found["parts"], answer.parts, strict=True):
        assert [one.pop("types") is not None for one in part["matches"]]
        assert part["matches"] == [one.as_dict() for one in expected.candidates]
        assert part["accepted"] is bool(expected.matches)


def test_targets(rest):
    assert get_args(Targets) == TARGETS
    there = rest.get("/v1/filters").json()["targets"]
    assert there == ["any", "leaf"]  # no concept of this graph is said to be billable or standard
    for refused in (
        rest.post("/v1/normalize", json={"texts": ["rash"], "targets": "billable"}),
        rest.get("/v1/search", params={"q": "rash", "targets": "standard"}),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_targets")
    wrong = rest.get("/v1/search", params={"q": "rash", "targets": "leaves"})
    assert wrong.status_code == 422


def test_the_description_has_every_stage_and_an_example_of_what_is_said(rest):
    schemas = rest.get("/openapi.json").json()["components"]["schemas"]
    match = schemas["MatchOf"]["properties"]
    assert {"abbreviation", "slip"} < {*match["stage"]["enum"]}
    assert {"attributes", "span", "twins"} < match.keys()
    assert {"status", "review", "steps", "parts", "span"} < schemas["AnswerOf"]["properties"].keys()
    assert schemas["AnswerOf"]["properties"]["steps"]["examples"]
    assert schemas["AttributeOf"]["properties"]["text"]["examples"] == ["(L)"]


def test_embedding(rest, normalizer):
    texts = ["fever", "heart attack", "fever"]
    found = rest.post("/v1/embed", json={"texts": texts}).json()
    assert found["width"] == normalizer.encoder.width
    assert np.allclose(found["vectors"], normalizer.encoder.encode(texts), atol=1e-6)
    assert rest.post("/v1/embed", json={"texts": []}).json()["vectors"] == []
