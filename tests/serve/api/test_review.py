"""Projects are listed, reviewed and decided on over REST."""

from fastapi.testclient import TestClient

from medcoder.serve import make_app
from support.mapped import make
from support.saying import ROWS, Sayer


def test_what_terms_say(tmp_path):
    make(tmp_path, rows=ROWS, machine=Sayer()).close()
    file = tmp_path / "out" / "project.sqlite"
    app = make_app(lambda: None, folder=tmp_path / "service", projects={"ward": file})
    rest = TestClient(app, base_url="http://localhost")
    found = rest.get("/v1/projects/ward/terms", params={"sort": "row"}).json()["terms"]
    terms = {term["text"]: term for term in found}
    assert (terms["?fever"]["status"], terms["?fever"]["review"]) == ("review", "in doubt (?)")
    assert terms["no fever"]["said"] == terms["no fever"]["reason"] == "negated (no)"
    past = terms["h/o heart attack R"]
    assert past["said"] == "history (h/o); left (R)"
    assert past["steps"] == ["took off 'h/o': history"]
    assert past["candidates"][0]["attributes"] == [
        {"kind": "history", "value": "", "text": "h/o"},
        {"kind": "side", "value": "left", "text": "R"},
    ]
    assert terms["fever"]["candidates"][0]["twins"] == ["X1"]
    cell = terms["fever; ache"]
    assert [(part["text"], part["span"], part["status"]) for part in cell["parts"]] == [
        ("fever", [0, 5], "match"), ("ache", [7, 11], "match"),
    ]  # fmt: skip
    assert [one["span"] for one in cell["candidates"]] == [[0, 5], [7, 11], [7, 11]]
    assert (cell["said"], cell["review"]) == ("", "")
    accepted = rest.post(
        "/v1/projects/ward/accept", json={"who": "ann", "threshold": 0.1, "only_count": True}
    )
    assert accepted.json()["terms"] == 5


def test_a_project_that_goes_while_they_are_listed(rest, project, tmp_path, monkeypatch):
    serving = rest.app.state.serving
    there = serving.projects()
    monkeypatch.setattr(serving, "projects", lambda: {"f" * 32: tmp_path / "gone.sqlite"} | there)
    listed = rest.get("/v1/projects")
    assert listed.status_code == 200
    assert {one["id"] for one in listed.json()["projects"]} == set(there)


def test_a_project_that_is_damaged_is_left_out_of_the_list(
    rest, project, tmp_path, monkeypatch, caplog
):
    serving, file = rest.app.state.serving, tmp_path / "project.sqlite"
    file.write_bytes(b"janedoe1970 " * 999)
    there = serving.projects()
    monkeypatch.setattr(serving, "projects", lambda: {"f" * 32: file} | there)
    for _ in range(2):
        listed = rest.get("/v1/projects")
        assert listed.status_code == 200
        assert {one["id"] for one in listed.json()["projects"]} == set(there)
    told = [one.getMessage() for one in caplog.records if one.name == "medcoder.serve"]
    assert len(told) == 1
    assert told[0].startswith("a project cannot be listed: ArtefactError at")
    assert "janedoe" not in told[0]


def test_deciding_undoing_and_what_others_see(rest, project):
    path = f"/v1/projects/{project}"
    before = rest.get(f"{path}/terms/2").json()
    assert (before["version"], before["decision"]) == (0, None)
    chosen = before["candidates"][1]
    made_ = rest.post(
        f"{path}/terms/2/decision",
        json={"concept": chosen["concept"], "equivalence": "broader", "who": "ann", "note": "hm",
              "expected_version": 0},
    ).json()  # fmt: skip
    assert (made_["version"], made_["name"], made_["codes"]) == (
        1, chosen["name"], chosen["codes"]
    )  # fmt: skip
    stale = rest.post(
        f"{path}/terms/2/decision", json={"concept": None, "who": "bob", "expected_version": 0}
    )
    error = stale.json()["error"]
    assert (stale.status_code, error["code"]) == (409, "stale")
    assert (error["expected"], error["found"]) == (0, 1)
    assert (error["mine"]["concept"], error["mine"]["who"]) == (None, "bob")
    assert error["theirs"] == made_
    news = rest.get(f"{path}/changes").json()
    assert [(one["who"], one["key"], one["action"]) for one in news["events"]] == [
        ("ann", 2, "decide")
    ]
    undone = rest.post(f"{path}/undo", json={"who": "ann"}).json()
    assert (undone["term"]["decision"], undone["term"]["version"]) == (None, 2)
    later = rest.get(f"{path}/changes", params={"since": news["last"]}).json()
    assert [one["action"] for one in later["events"]] == ["undo"]
    nothing = rest.get(f"{path}/changes", params={"since": later["last"]}).json()
    assert nothing == {"events": [], "last": later["last"]}
    assert rest.get(path).json()["last_change"] == later["last"]
    history = rest.get(f"{path}/terms/2/history").json()["events"]
    assert [one["version"] for one in history] == [1, 2]
    for again in (f"{path}/undo", f"{path}/terms/2/undo"):
        assert rest.post(again, json={"who": "ann"}).json()["error"]["code"] == "nothing_to_undo"


def test_deciding_on_a_concept_that_was_not_offered(rest, normalizer, project):
    path = f"/v1/projects/{project}/terms/1/decision"
    offered = {one["concept"] for one in rest.get(path[: -len("/decision")]).json()["candidates"]}
    other = next(concept for concept in normalizer.kg if concept not in offered)
    found = rest.post(path, json={"concept": other, "who": "ann"}).json()
    assert found["name"] == normalizer.kg.preferred(other)
    assert [tuple(code.values()) for code in found["codes"]] == normalizer.kg.codes_of(other)
    unknown = rest.post(path, json={"concept": "nope", "who": "ann"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "no_concept")
    senseless = rest.post(path, json={"concept": None, "equivalence": "broader", "who": "ann"})
    assert senseless.status_code == 422


def test_pages_of_the_queue(rest, project):
    def asked(**query):
        return rest.get(f"/v1/projects/{project}/terms", params=query).json()

    whole = asked(sort="doubt")["terms"]
    doubts = [
        one["count"] * (1 - (one["candidates"][0]["confidence"] if one["candidates"] else 0))
        for one in whole
    ]
    assert doubts == sorted(doubts, reverse=True)
    assert asked(sort="doubt", offset=1, limit=2) == {"total": 4, "terms": whole[1:3]}
    assert [one["count"] for one in asked(sort="count")["terms"]] == [5, 3, 2, 1]
    assert [one["text"] for one in asked(q="ZZZ")["terms"]] == ["zzz qqq"]
    assert asked(q="%")["total"] == 0
    by_status = {status: asked(status=status)["total"] for status in ("auto", "review", "none")}
    counts = rest.get(f"/v1/projects/{project}").json()["counts"]
    assert by_status == {status: counts[status]["terms"] for status in by_status}


def test_accepting_all_above_a_confidence(rest, project):
    path = f"/v1/projects/{project}"
    terms = rest.get(f"{path}/terms").json()["terms"]
    rest.post(f"{path}/terms/4/decision", json={"concept": None, "who": "bob"})
    sure = [one for one in terms if one["status"] in ("auto", "review") and one["key"] != 4]
    confidences = {one["key"]: one["candidates"][0]["confidence"] for one in sure}
    least = min(confidences.values())
    asked = {"who": "ann", "threshold": least}
    counted = rest.post(f"{path}/accept", json=asked | {"only_count": True}).json()
    assert counted == {"terms": len(sure), "rows": len(sure), "threshold": least}
    assert rest.get(f"{path}").json()["counts"]["approved"]["terms"] == 1
    assert rest.post(f"{path}/accept", json=asked).json() == counted
    for one in rest.get(f"{path}/terms", params={"status": "approved"}).json()["terms"]:
        if one["key"] == 4:
            assert (one["decision"]["who"], one["decision"]["concept"]) == ("bob", None)
        else:
            assert one["decision"]["concept"] == one["candidates"][0]["concept"]
            assert one["key"] in confidences
    none = rest.post(f"{path}/accept", json={"who": "ann", "precision": 0.99}).json()
    assert none["terms"] == 0
