"""Downloads are what the library exports."""

import json

import pytest

from medcoder.errors import UsageError
from medcoder.mapping import FORMATS, Project
from medcoder.mapping.formats import export


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_exports_are_those_of_the_library(rest, project, tmp_path, name):
    answer = rest.get(f"/v1/projects/{project}/exports/{name}")
    file = rest.app.state.serving.projects()[project]
    if answer.status_code != 200:
        assert name in ("omop", "usagi")  # there are no ids of OMOP in the graph
        assert answer.json()["error"]["code"] == "not_exported"
        return
    with Project.open(file) as opened:
        notes = export(opened, name, tmp_path / "out")
    said = answer.headers["x-medcoder-notes"].replace("%25", "%")
    assert json.loads(said) == notes
    if name not in ("xlsx", "sssom", "fhir"):  # which hold the time of writing
        assert answer.content == (tmp_path / "out").read_bytes()
    assert 'filename="ward.' in answer.headers["content-disposition"]
    assert list(rest.app.state.serving.exports.iterdir()) == []


@pytest.mark.parametrize("asked", ["bytes=9999999-", "bytes=5-1", "lines=1", "bytes=0-3", "x"])
def test_a_part_of_an_export_is_all_of_it(rest, project, asked):
    path = f"/v1/projects/{project}/exports/csv"
    whole = rest.get(path)
    answer = rest.get(path, headers={"range": asked})
    assert (answer.status_code, answer.content) == (200, whole.content)
    assert answer.headers["accept-ranges"] == "none"
    assert list(rest.app.state.serving.exports.iterdir()) == []


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_project_that_is_not_begun_is_not_exported(rest, tmp_path, monkeypatch, name):
    Project.create(tmp_path).close()
    serving, file = rest.app.state.serving, tmp_path / "project.sqlite"
    monkeypatch.setattr(serving, "projects", lambda: {"new": file})
    answer = rest.get(f"/v1/projects/new/exports/{name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_begun")
    with Project.open(file) as opened, pytest.raises(UsageError, match="holds no table yet"):
        export(opened, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_formats(rest, project):
    listed = rest.get("/v1/exports").json()["formats"]
    assert [one["format"] for one in listed] == sorted(FORMATS)
    assert rest.get(f"/v1/projects/{project}/exports/nope").json()["error"]["code"] == "no_format"
