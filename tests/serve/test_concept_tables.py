"""CONCEPT tables of OMOP that are sent for exports."""

import gzip
import json
import os
import time

import pytest

from medcoder.errors import InputError
from medcoder.mapping import Project
from medcoder.mapping.formats import export
from medcoder.serve.settings import Settings
from support.mapped import CONCEPT, write_concepts
from support.served import client, made, map_it, send_concepts

LIMIT = 20_000


@pytest.fixture(scope="module")
def rest(many_index, tmp_path_factory):
    settings = Settings(concepts=LIMIT, concept_tables=2)
    with client(made(many_index, tmp_path_factory.mktemp("a b"), settings=settings)) as found:
        yield found


@pytest.fixture(scope="module")
def project(rest):
    return map_it(rest)


@pytest.mark.parametrize("name", ["omop", "usagi"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_exports_with_a_concept_table(rest, project, tmp_path, name, packed):
    file = rest.app.state.serving.projects()[project]
    with Project.open(file) as opened:
        codes = [code for one in opened.terms() for code in one.candidates[0].codes[:1]]
    own = [[str(100 + place), "x", "Condition", code.vocabulary, "x", "S", code.code, "", "", ""]
           for place, code in enumerate(codes)]  # fmt: skip
    table = write_concepts(tmp_path, [CONCEPT[0], *own])
    answer = send_concepts(rest, table, packed=packed)
    assert answer.status_code == 201
    asked = {"concepts": answer.json()["concepts"]}
    answer = rest.get(f"/v1/projects/{project}/exports/{name}", params=asked)
    assert answer.status_code == 200
    with Project.open(file) as opened:
        notes = export(opened, name, tmp_path / "out", concepts=table)
    assert json.loads(answer.headers["x-medcoder-notes"].replace("%25", "%")) == notes
    assert answer.content == (tmp_path / "out").read_bytes()
    assert b"100" in answer.content


def test_a_concept_table_that_lacks_concepts(rest, project, tmp_path):
    sent = send_concepts(rest, write_concepts(tmp_path, CONCEPT[:1])).json()["concepts"]
    folder = str(rest.app.state.serving.folder)
    path = f"/v1/projects/{project}/exports/omop"
    answer = rest.get(path, params={"concepts": sent})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "not_exported")
    assert "no concept in the CONCEPT table" in answer.json()["error"]["message"]
    answer = rest.get(path, params={"concepts": sent, "missing_ok": True})
    assert answer.status_code == 200
    assert "no concept in the CONCEPT table" in answer.headers["x-medcoder-notes"]
    assert folder not in answer.headers["x-medcoder-notes"]
    answer = rest.get(path)
    assert "POST /v1/concept-tables" in answer.json()["error"]["message"]
    for bad in ("0" * 32, "../../x"):
        answer = rest.get(path, params={"concepts": bad})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_concepts")
    answer = rest.get(f"/v1/projects/{project}/exports/csv", params={"concepts": sent})
    assert answer.json()["error"]["code"] == "not_exported"


def test_a_concept_table_with_a_bad_row(rest, project, tmp_path):
    with Project.open(rest.app.state.serving.projects()[project]) as opened:
        code = next(opened.terms()).candidates[0].codes[0]
    bad = ["janedoe", "x", "Condition", code.vocabulary, "x", "S", code.code, "", "", ""]
    table = write_concepts(tmp_path, [*CONCEPT, bad])
    sent = send_concepts(rest, table).json()["concepts"]
    answer = rest.get(f"/v1/projects/{project}/exports/omop", params={"concepts": sent})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "not_exported")
    assert error["message"] == "row 9: a concept_id is not a whole number"
    with (
        Project.open(rest.app.state.serving.projects()[project]) as opened,
        pytest.raises(InputError, match=r"CONCEPT\.csv, row 9: .*: 'janedoe'"),
    ):
        export(opened, "omop", tmp_path / "out", concepts=table)


def kept(rest):
    return sorted(file.name for file in (rest.app.state.serving.folder / "concepts").iterdir())


def test_the_last_are_kept(rest, tmp_path):
    table = write_concepts(tmp_path)
    sent = [send_concepts(rest, table).json()["concepts"] for _ in range(4)]
    assert kept(rest) == sorted(f"{one}.csv" for one in sent[-2:])
    for name in kept(rest):
        file = rest.app.state.serving.folder / "concepts" / name
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.read_bytes() == table.read_bytes()


def test_the_last_are_kept_by_a_clock_that_was_put_back(rest, tmp_path):
    table = write_concepts(tmp_path)
    sent = [send_concepts(rest, table).json()["concepts"] for _ in range(2)]
    later = time.time_ns() + 10**12
    for number in sent:
        os.utime(rest.app.state.serving.folder / "concepts" / f"{number}.csv", ns=(later, later))
    for _ in range(5):
        sent.append(send_concepts(rest, table).json()["concepts"])
        assert f"{sent[-1]}.csv" in kept(rest)
    assert kept(rest) == sorted(f"{one}.csv" for one in sent[-2:])


def test_what_is_no_table_or_too_large_is_not_kept(rest, tmp_path):
    table = write_concepts(tmp_path).read_bytes()
    before = kept(rest)
    for name, content, status, code in (
        ("CONCEPT.xlsx", table, 415, "format"),
        ("CONCEPT.csv", b"", 422, "bad_input"),
        ("CONCEPT.csv", b"\xff\xfe\0", 422, "bad_input"),
        ("CONCEPT.csv", table.replace(b"\t", b","), 422, "bad_input"),
        ("CONCEPT.csv", table.replace(b"concept_code", b"secret"), 422, "bad_input"),
        ("CONCEPT.csv.gz", table, 422, "bad_input"),
        ("CONCEPT.csv.gz", gzip.compress(table)[:-20], 422, "bad_input"),
        ("CONCEPT.csv", table + b"x" * LIMIT, 413, "too_large"),
        ("CONCEPT.csv", table + b"x" * LIMIT * 10, 413, "too_large"),
        ("CONCEPT.csv.gz", gzip.compress(table + b"x" * LIMIT * 10), 413, "too_large"),
    ):
        answer = rest.post("/v1/concept-tables", files={"file": (name, content)})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code), (name, content[:40])
        assert error.get("limit") == (LIMIT if status == 413 else None)
        assert "secret" not in answer.text
        assert kept(rest) == before


def test_what_a_killed_process_left_is_removed(many_index, tmp_path):
    folder = tmp_path / "concepts"
    folder.mkdir()
    (folder / "x.partial").write_text("half")
    made(many_index, tmp_path)
    assert list(folder.iterdir()) == []
