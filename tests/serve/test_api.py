"""The REST interface says what the library says."""

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from medcoder import Normalizer
from medcoder.errors import UsageError
from medcoder.mapping import FORMATS, Project
from medcoder.mapping.formats import export
from medcoder.serve.api.concepts import projected
from medcoder.serve.api.reference import TABLE as WARD
from medcoder.serve.api.reference import example, operations
from medcoder.serve.metrics import Metrics
from medcoder.serve.settings import Settings
from support.many import QUERIES
from support.mapped import write_concepts
from support.served import client, finished, made, map_it, send_concepts, until, upload


@pytest.fixture(scope="module")
def normalizer(many_index):
    return Normalizer.load(many_index)


@pytest.fixture(scope="module")
def rest(many_index, normalizer, tmp_path_factory):
    app = made(many_index, tmp_path_factory.mktemp("serve"), normalizer=normalizer)
    with client(app) as found:
        yield found


@pytest.fixture
def project(rest):
    return map_it(rest)


# Looking up


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
    assert [[one["x"], one["y"]] for one in found] == places.tolist()


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
        assert one["count"] == sum(term.source == one["name"] for term in terms)


# Mapping


def test_mapping_an_upload(rest, normalizer, project):
    listed = {one["id"]: one for one in rest.get("/v1/projects").json()["projects"]}
    assert (listed[project]["name"], listed[project]["rows"]) == ("ward.csv", 4)
    summary = rest.get(f"/v1/projects/{project}").json()
    assert listed[project]["created"] == summary["created"] == summary["meta"]["created"]
    assert datetime.fromisoformat(summary["created"]).utcoffset() == timedelta(0)
    assert summary["header"] == ["id", "text", "n"]
    assert summary["meta"]["column"] == "text"
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


# Review


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


# Export


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


# About itself


def test_examples_of_the_description_work(rest, project, tmp_path):
    first = next(iter(rest.app.state.serving.projects()))
    for _ in range(2):  # that the examples can undo
        path = f"/v1/projects/{first}/terms/1/decision"
        assert rest.post(path, json={"concept": None, "who": "ann"}).status_code == 200
    done = 0
    for method, route, _ in operations(rest.get("/openapi.json").json()):
        one = example(rest.app.state.serving, method, route)
        if one.file == "CONCEPT.csv":
            answer = send_concepts(rest, write_concepts(tmp_path))
        elif one.file:
            answer = upload(rest, WARD.encode(), one.file)
        else:
            answer = rest.request(method, one.path, json=one.body)
        assert answer.status_code in (200, 201, 202), (one, answer.text)
        done += 1
    assert done > 20
    until(lambda: not any(job.active for job in rest.app.state.serving.jobs.all()))


def test_the_page_of_the_description(rest):
    page = rest.get("/docs").text
    for method, route, _ in operations(rest.get("/openapi.json").json()):
        assert f"<h3>{method} {route}</h3>" in page
    assert "<script" not in page
    assert "style=" not in page
    assert "heart attack" in page
    assert rest.get("/docs/style.css").headers["content-type"].startswith("text/css")


def test_examples_name_nothing_that_a_token_guards(many_index, normalizer, tmp_path):
    settings = Settings(token="a token of many letters")
    app = made(many_index, tmp_path, normalizer=normalizer, settings=settings)
    asked = {"authorization": f"Bearer {settings.token}"}
    with client(app, headers=asked) as rest:
        sent = upload(rest).json()["upload"]
        project = map_it(rest)
        page = rest.get("/docs", headers={"authorization": ""})
    assert page.status_code == 200
    assert "projects/ward/terms" in page.text
    for number in (sent, project, app.state.serving.uploads.last()):
        assert number not in page.text


def test_metrics(rest):
    asked = {"route": "/healthz", "method": "GET", "status": "200"}
    before = _samples(rest, "medcoder_requests_total", asked) or [0]
    assert rest.get("/healthz").json() == {"ok": True}
    assert _samples(rest, "medcoder_requests_total", asked) == [before[0] + 1]
    assert _samples(rest, "medcoder_ready") == [1]
    buckets = _samples(rest, "medcoder_request_seconds_bucket", {"route": "/healthz"})
    assert buckets == sorted(buckets)
    assert buckets[-1] == before[0] + 1
    assert "_created" not in rest.get("/metrics").text


def test_applications_count_apart():
    first, second = Metrics(), Metrics()
    first.count_call("embed", 2, 5)
    assert 'medcoder_batch_strings_sum{call="embed"} 5.0' in first.text({})
    assert "embed" not in second.text({"medcoder_ready": ("Whether it is loaded.", 0)})


def _samples(rest, name, labels=None):
    """Values of the samples of that name with these labels."""
    return [
        sample.value
        for family in text_string_to_metric_families(rest.get("/metrics").text)
        for sample in family.samples
        if sample.name == name and (labels or {}).items() <= sample.labels.items()
    ]
