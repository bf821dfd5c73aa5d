"""Strings looked up over REST get what the library answers."""

import numpy as np
import pytest

from support.many import QUERIES


@pytest.mark.parametrize(
    "options",
    [{}, {"top": 2, "types": ["T047"]}, {"languages": ["es"], "vocabularies": ["MSH", "ICD10CM"]},
     {"threshold": 0.0}],
    ids=str,
)  # fmt: skip
def test_normalizing_is_that_of_the_library(rest, normalizer, options):
    found = rest.post("/v1/normalize", json={"texts": list(QUERIES), **options}).json()["answers"]
    for said, answer in zip(found, normalizer.normalize_many(QUERIES, **options), strict=True):
        assert said == {
            "query": answer.query,
            "matches": [one.as_dict() for one in answer.matches],
            "rejected": [one.as_dict() for one in answer.rejected],
            "threshold": answer.threshold,
            "reason": answer.reason,
        }


def test_searching(rest, normalizer):
    found = rest.get("/v1/search", params={"q": "kidny desease", "top": 3, "types": "T047"}).json()
    answer = normalizer.normalize("kidny desease", top=3, types=["T047"])
    types = [one.pop("types") for one in found["matches"]]
    assert found["matches"] == [one.as_dict() for one in answer.candidates]
    assert found["accepted"] is bool(answer.matches)
    assert all({"id": "T047", "name": "Disease or Syndrome"} in one for one in types)
    assert rest.get("/v1/search", params={"q": ""}).json()["matches"] == []


def test_embedding(rest, normalizer):
    texts = ["fever", "heart attack", "fever"]
    found = rest.post("/v1/embed", json={"texts": texts}).json()
    assert found["width"] == normalizer.encoder.width
    assert np.allclose(found["vectors"], normalizer.encoder.encode(texts), atol=1e-6)
    assert rest.post("/v1/embed", json={"texts": []}).json()["vectors"] == []
