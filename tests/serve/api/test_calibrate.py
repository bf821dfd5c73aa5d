"""Confidences are fitted anew over REST, and a project says how its promise was kept."""

import sqlite3

import pytest
from fastapi.testclient import TestClient

from medcoder.mapping import Project
from medcoder.serve import make_app
from medcoder.serve.settings import Settings
from support.judged import confidences, decide, overconfident, undecided

TOKEN = "a token of sixteen and more"


def service(tmp_path, folder="service", **settings):
    """A service of the project in `out`, without an index."""
    file = tmp_path / "out" / "project.sqlite"
    app = make_app(
        lambda: None, folder=tmp_path / folder, projects={"ward": file},
        settings=Settings(**settings),
    )  # fmt: skip
    return TestClient(app, base_url="http://localhost")


@pytest.fixture
def rest(tmp_path):
    overconfident(tmp_path / "out", 300, precision=0.8).close()
    return service(tmp_path, wait=0.05)


PATH = "/v1/projects/ward"


def test_a_calibration_and_back(rest):
    terms = rest.get(f"{PATH}/terms", params={"sort": "row"}).json()
    before = rest.get(PATH).json()
    preview = rest.post(f"{PATH}/calibrate", json={"who": "ann", "dry_run": True}).json()
    assert (preview["changed"], preview["gain"]) == (False, True)
    assert rest.get(PATH).json() == before
    done = rest.post(f"{PATH}/calibrate", json={"who": "ann"})
    assert (done.status_code, done.json()) == (200, preview | {"changed": True})
    made = done.json()
    assert made["decisions"]["counted"] == 300
    assert made["held_out"]["log_loss"]["after"] < made["held_out"]["log_loss"]["before"]
    after = rest.get(PATH).json()
    assert after["meta"]["threshold"] == made["threshold"]["after"]
    assert after["meta"]["recalibrations"][0]["who"] == "ann"
    assert after["counts"]["auto"]["terms"] == made["automatic"]["terms"]
    assert after["counts"]["approved"] == before["counts"]["approved"]
    shown = rest.get(f"{PATH}/terms", params={"sort": "row"}).json()
    assert shown != terms
    assert [one["decision"] for one in shown["terms"]] == [
        one["decision"] for one in terms["terms"]
    ]
    undone = rest.post(f"{PATH}/calibrate/undo", json={"dry_run": True}).json()
    assert (undone["changed"], rest.get(PATH).json()) == (False, after)
    undone = rest.post(f"{PATH}/calibrate/undo", json={}).json()
    assert (undone["changed"], undone["recalibration"]) == (True, None)
    assert undone["become_automatic"] == made["go_to_review"]
    assert rest.get(f"{PATH}/terms", params={"sort": "row"}).json() == terms
    again = rest.post(f"{PATH}/calibrate/undo", json={})
    assert (again.status_code, again.json()["error"]) == (
        409, {"code": "nothing_to_undo", "message": "there is no calibration to undo"},
    )  # fmt: skip


def test_a_calibration_that_changes_nothing_says_why(tmp_path):
    decide(undecided(tmp_path / "out", confidences(50)), [True, False] * 20).close()
    done = service(tmp_path).post(f"{PATH}/calibrate", json={"who": "ann"})
    assert (done.status_code, done.json()) == (200, {
        "changed": False, "gain": False,
        "reason": "too few decisions count: 40, and 200 are needed",
        "decisions": {"counted": 40, "right": 20, "left_out": {}}, "held_out": None,
        "recalibration": None, "threshold": None, "become_automatic": None, "go_to_review": None,
        "automatic": None,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("path", "asked"),
    [("calibrate", {}), ("calibrate", {"who": " "}), ("calibrate", {"who": "a" * 101}),
     ("calibrate", {"who": "ann", "dryrun": True}), ("calibrate", {"who": "ann", "dry_run": 7}),
     ("calibrate/undo", {"undo": True}), ("calibrate/undo", [])],
)  # fmt: skip
def test_requests_that_are_not_as_they_should_be(rest, path, asked):
    before = rest.get(PATH).json()
    answer = rest.post(f"{PATH}/{path}", json=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) in {
        (422, "invalid"), (422, "limit"),
    }  # fmt: skip
    assert rest.get(PATH).json() == before


def test_what_cannot_be_calibrated(rest, tmp_path):
    for path in ("calibrate", "calibrate/undo"):
        asked = {"who": "ann"} if path == "calibrate" else {}
        answer = rest.post(f"/v1/projects/nowhere/{path}", json=asked)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_project")
    file = tmp_path / "out" / "project.sqlite"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    busy = rest.post(f"{PATH}/calibrate", json={"who": "ann"})
    other.close()
    assert (busy.status_code, busy.json()["error"]["code"]) == (503, "busy")
    assert int(busy.headers["retry-after"]) > 0
    with Project.open(file) as project:
        project.put(complete=False)
    answer = rest.post(f"{PATH}/calibrate", json={"who": "ann"})
    assert answer.status_code == 422
    assert answer.json()["error"] == {
        "code": "refused", "message": "the project is not mapped to its end"
    }  # fmt: skip


def test_a_token_is_asked_for(rest, tmp_path):
    guarded = service(tmp_path, "guarded", token=TOKEN)
    for path, asked in (("calibrate", {"who": "ann"}), ("calibrate/undo", {})):
        assert guarded.post(f"{PATH}/{path}", json=asked).status_code == 401
    said = {"authorization": f"Bearer {TOKEN}"}
    done = guarded.post(f"{PATH}/calibrate", json={"who": "ann"}, headers=said)
    assert done.json()["changed"] is True


def test_a_project_says_how_its_promise_was_kept(tmp_path):
    project = undecided(tmp_path / "out", [0.99] * 40)
    rest = service(tmp_path)
    assert rest.get(PATH).json()["promise"] == {
        "promised": 0.98, "looked_at": 0, "right": 0, "share": None, "low": None, "high": None,
        "broken": False, "warning": "",
    }  # fmt: skip
    decide(project, [True] * 20 + [False] * 10).close()
    kept = rest.get(PATH).json()["promise"]
    assert (kept["looked_at"], kept["right"], kept["broken"]) == (30, 20, True)
    assert kept["low"] < kept["share"] < kept["high"] < 0.98
    assert kept["warning"].startswith("the promise is not kept: 98.0% of automatic mappings")


def test_accepting_many_is_no_look(tmp_path):
    undecided(tmp_path / "out", [0.99] * 40).close()
    rest = service(tmp_path)
    accepted = rest.post(f"{PATH}/accept", json={"who": "ann", "precision": 0.98}).json()
    assert accepted["terms"] == 40
    assert rest.get(PATH).json()["promise"]["looked_at"] == 0
    made = rest.post(f"{PATH}/calibrate", json={"who": "ann"}).json()
    assert made["decisions"] == {"counted": 0, "right": 0, "left_out": {"bulk": 40}}
