"""What people type or upload is in no log, no metric and no error; nothing leaves the machine."""

import logging
import socket

import pytest

from medcoder import Normalizer
from medcoder.mapping.formats import FORMATS, all_options
from medcoder.serve.error_replies import failure_place
from medcoder.serve.middleware import HEADERS
from support.served import client, finished, made, map_it, upload

SECRET = "janedoe1970"
FIELDS = ("upload", "column", "code", "count", "language", "context", "top", "precision",
          "vocabularies", "keep_bad_rows", SECRET)  # fmt: skip
TABLE = f"text,n,{SECRET}\n{SECRET},1,{SECRET}\nfever,{SECRET},x\n".encode()
# A row of three fields, beyond those that an upload is looked at by
LATE = b"text,n\n" + b"fever,1\n" * 20 + f"{SECRET},{SECRET},{SECRET}\n".encode()
TABLES = [
    (f"{SECRET},{SECRET}\n1,2\n".encode(), "x.csv"),
    (f"a,b\n{SECRET}\n".encode(), "x.csv"),
    (f'a,b\n"{SECRET}" {SECRET},2\n'.encode(), "x.csv"),
    (f'a,b\n"{SECRET}\n'.encode(), "x.csv"),
    (f"a,b\n{SECRET},".encode() + b"\xe8\n", "x.csv"),
    (f"{SECRET}\0{SECRET}\n".encode(), "x.tsv"),
    (b"PAR1" + SECRET.encode() + b"PAR1", "x.parquet"),
    (b"PK\x03\x04" + SECRET.encode(), "x.xlsx"),
    (b"", f"{SECRET}.csv"),
]  # fmt: skip


@pytest.fixture
def rest(many_index, tmp_path):
    with client(made(many_index, tmp_path / "serve")) as found:
        yield found


def requests(rest, project):
    """Everything that could go wrong, with the secret in it."""
    yield rest.post("/v1/normalize", json={"texts": [SECRET]})
    yield rest.post("/v1/normalize", json={"texts": [SECRET * 500]})
    yield rest.post("/v1/normalize", json={"texts": SECRET})
    yield rest.post("/v1/normalize", json={"texts": [], SECRET: SECRET})
    yield rest.post("/v1/normalize", json={"texts": [], "top": SECRET})
    yield rest.post("/v1/normalize", json=[SECRET])
    for kind in ("types", "vocabularies", "languages"):
        yield rest.post("/v1/normalize", json={"texts": ["x"], kind: [SECRET]})
        yield rest.get("/v1/search", params={"q": SECRET, kind: SECRET})
    raw = {"content-type": "application/json"}
    yield rest.post("/v1/normalize", content=f'{{"texts": ["{SECRET}', headers=raw)
    yield rest.post("/v1/normalize", content=f'{{"texts": ["{SECRET}\\ud800"]}}', headers=raw)
    yield rest.post("/v1/normalize", content=SECRET, headers={"content-type": SECRET})
    yield rest.post("/v1/embed", json={"texts": [1, SECRET, {}]})
    yield rest.get("/v1/search", params={"q": SECRET})
    yield rest.get("/v1/search", params={"q": SECRET, "top": SECRET})
    yield rest.get("/v1/search", params={SECRET: SECRET})
    for place in ("concepts/X", "concepts/X/neighbours", "jobs/X", "projects/X", "X", "X?q=X"):
        yield rest.get(f"/v1/{place}".replace("X", SECRET))
    yield rest.get(f"/{SECRET}")
    yield rest.request(SECRET.upper(), "/v1/normalize")
    yield upload(rest, TABLE, f"{SECRET}.exe")
    yield upload(rest, SECRET.encode(), f"{SECRET}.xlsx")
    yield upload(rest, b'"' + SECRET.encode(), "x.csv")
    yield upload(rest, TABLE, "x.csv", encoding=SECRET)
    path = f"/v1/projects/{project}"
    yield rest.get(f"{path}/terms", params={"q": SECRET, "status": SECRET})
    yield rest.get(f"{path}/exports/{SECRET}")
    yield rest.get(f"{path}/exports/csv", params={"url": SECRET})
    yield rest.post(f"{path}/terms/1/decision", json={"concept": SECRET, "who": SECRET})
    yield rest.post(f"{path}/terms/{SECRET}/decision", json={"concept": None, "who": "x"})
    yield rest.post(
        f"{path}/terms/1/decision", json={"concept": None, "equivalence": SECRET, "who": "x"}
    )
    yield rest.post(f"{path}/undo", json={"who": SECRET})
    yield rest.post(f"{path}/calibrate", json={"who": SECRET, SECRET: SECRET})
    yield rest.post(f"{path}/calibrate/undo", json={"dry_run": SECRET})
    sent = upload(rest, TABLE, "x.csv").json()["upload"]
    for change in ({"column": SECRET * 2}, {"context": {SECRET: SECRET}}, {"upload": SECRET},
                   {"vocabularies": [SECRET]}, {"precision": SECRET}):  # fmt: skip
        yield rest.post("/v1/map", json={"upload": sent, "column": "text"} | change)
    for fields in FIELDS:
        yield rest.post("/v1/map", json={"upload": sent, "column": "text"} | {fields: SECRET * 3})
    for format in (*FORMATS, "nowhere"):
        for option in (*(one.name for one in all_options()), "nowhere"):
            yield rest.get(f"{path}/exports/{format}", params={option: SECRET})
    table = f"concept_id\tconcept_code\n{SECRET}\t{SECRET}\n".encode()
    for name in ("CONCEPT.csv", "CONCEPT.csv.gz", f"{SECRET}.txt"):
        yield rest.post("/v1/concept-tables", files={"file": (name, table)})
    # Not of a term that there is: a decision that comes too late is sent back, for both to be seen.
    said = {"who": SECRET, "note": SECRET, "expected_version": 77}
    yield rest.post(f"{path}/terms/77777/decision", json=said | {"concept": SECRET})
    yield rest.post(f"{path}/terms/77777/undo", json=said)
    yield rest.post(f"{path}/terms/1/undo", json=said | {"concept": SECRET})
    yield rest.post(f"{path}/accept", json={"who": SECRET, "precision": SECRET})
    yield rest.get(f"{path}/changes", params={"since": SECRET})
    for content, name in TABLES:
        yield upload(rest, content, name)


def failing_jobs(rest):
    """Jobs that the table itself makes fail."""
    sent = upload(rest, TABLE, "x.csv").json()["upload"]
    late = upload(rest, LATE, "x.csv").json()["upload"]
    for table, more in ((sent, {"count": "n"}), (late, {})):
        asked = {"upload": table, "column": "text"} | more
        yield finished(rest, rest.post("/v1/map", json=asked).json()["id"])


def test_nothing_that_was_sent_is_repeated(rest, caplog, capfd, tmp_path):
    caplog.set_level(logging.DEBUG)
    project = map_it(rest)
    bad = 0
    for answer in requests(rest, project):
        if answer.status_code >= 400:
            bad += 1
            said = f"{answer.text} {answer.headers}".lower()
            assert SECRET not in said, (answer.request.url, said)
            assert str(tmp_path) not in said
            assert "traceback" not in said
            assert answer.json()["error"]["message"]
    assert bad > 80
    for failed in failing_jobs(rest):
        assert failed["state"] == "failed"
        assert failed["error"]
        assert SECRET not in str(failed)
    ours = [one for one in caplog.records if not one.name.startswith("httpx")]
    assert any(one.getMessage().startswith("POST /v1/normalize 200") for one in ours)
    logged = "\n".join(f"{one.getMessage()} {one.exc_text}" for one in ours)
    assert SECRET not in logged.lower()
    assert SECRET not in "".join(capfd.readouterr()).lower()
    assert SECRET not in rest.get("/metrics").text.lower()


def test_a_failure_tells_where_and_not_what(rest, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)

    def fail(self, texts, **options):
        raise KeyError(texts[0])

    monkeypatch.setattr(Normalizer, "normalize_many", fail)
    answer = rest.post("/v1/normalize", json={"texts": [SECRET]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert SECRET not in answer.text
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] == "no-store"
    logged = [one.getMessage() for one in caplog.records if one.name == "medcoder.serve"]
    assert any("KeyError at" in line and "fail:" in line for line in logged)
    assert SECRET not in "\n".join(logged)
    assert not any(one.exc_info for one in caplog.records if one.name == "medcoder.serve")


def test_words_of_a_failure():
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        assert failure_place(error).startswith("ValueError at test_words_of_a_failure:")


def test_no_connection_goes_out(many_index, tmp_path, monkeypatch):
    tried = []

    def connect(self, address):
        tried.append(address)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *rest, **more: tried.append(rest))
    with client(made(many_index, tmp_path)) as rest:
        project = map_it(rest)
        for answer in requests(rest, project):
            answer.read()
        for format in ("csv", "fhir", "sssom", "parquet", "xlsx"):
            assert rest.get(f"/v1/projects/{project}/exports/{format}").status_code == 200
        for path in ("/", "/docs", "/metrics", "/v1/filters", "/v1/concepts/C001/neighbours"):
            assert rest.get(path).status_code == 200
    assert tried == []
