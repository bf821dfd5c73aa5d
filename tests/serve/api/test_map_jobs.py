"""Uploads are mapped by jobs as the library maps them."""

from datetime import datetime, timedelta

import pytest

from support.served import finished, upload


def test_mapping_an_upload(rest, normalizer, project):
    listed = {one["id"]: one for one in rest.get("/v1/projects").json()["projects"]}
    assert (listed[project]["name"], listed[project]["rows"]) == ("ward.csv", 4)
    summary = rest.get(f"/v1/projects/{project}").json()
    assert listed[project]["created"] == summary["created"] == summary["meta"]["created"]
    assert datetime.fromisoformat(summary["created"]).utcoffset() == timedelta(0)
    assert summary["header"] == ["id", "text", "n"]
    assert summary["meta"]["column"] == "text"
    assert (summary["meta"]["split"], summary["meta"]["targets"]) == (True, "any")
    terms = rest.get(f"/v1/projects/{project}/terms", params={"sort": "row"}).json()
    assert [one["text"] for one in terms["terms"]] == [
        "heart attack", "fever cold", "zzz qqq", "heart attack",
    ]  # fmt: skip
    assert [one["code"] for one in terms["terms"]] == ["1", "2", "3", "4"]
    for one in terms["terms"]:
        expected = normalizer.normalize(one["text"]).candidates
        assert [found["concept"] for found in one["candidates"]] == [
            match.concept for match in expected
        ]


def test_uploads_of_other_kinds(rest):
    said = upload(rest, "a;b\nä;2\n".encode("cp1252"), "C:\\x\\../<y>.csv", encoding="cp1252")
    assert said.status_code == 201
    assert said.json()["columns"] == ["a", "b"]
    assert said.json()["preview"] == [["ä", "2"]]
    assert said.json()["name"] == "_y_.csv"
    assert upload(rest, b"a\tb\n1\t2\n", "x.TSV").json()["columns"] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "code"),
    [({"column": "nope"}, "no_column"), ({"count": "nope"}, "no_column"),
     ({"context": {"nope": "hint"}}, "no_column"), ({"vocabularies": ["nope"]}, "unknown_name"),
     ({"targets": "standard"}, "no_targets"), ({"targets": "leaves"}, "invalid"),
     ({"upload": "0" * 32}, "no_upload"), ({"upload": "../../x"}, "no_upload")],
    ids=str,
)  # fmt: skip
def test_a_job_that_cannot_start(rest, change, code):
    sent = upload(rest).json()["upload"]
    answer = rest.post("/v1/map", json={"upload": sent, "column": "text"} | change)
    assert answer.json()["error"]["code"] == code


def test_a_job_that_fails_says_why_without_a_value(rest):
    sent = upload(rest, b"text,n\nfever,3\nJane Doe,many\n").json()["upload"]
    job = rest.post("/v1/map", json={"upload": sent, "column": "text", "count": "n"}).json()
    found = finished(rest, job["id"])
    assert found["state"] == "failed"
    assert found["error"] == "the count of data row 2 is not a whole number"
    assert job["id"] in [one["id"] for one in rest.get("/v1/jobs").json()["jobs"]]
    assert rest.get(f"/v1/projects/{job['id']}").status_code == 404
