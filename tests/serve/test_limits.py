"""Each limit has its reply; strangers get none; bad uploads hurt nobody."""

import io
import random
import threading
import zipfile

import httpx
import pytest

from medcoder import Normalizer
from medcoder.errors import UsageError
from medcoder.serve.api import LENGTH, NAMES, TEXTS, TOP
from medcoder.serve.jobs import Jobs
from medcoder.serve.middleware import HEADERS
from medcoder.serve.settings import Settings
from support.served import TABLE, client, finished, made, running, until, upload

TOKEN = "a token of many letters"
SMALL = Settings(body=20_000, upload=50_000, unpacked=100_000, uploads=3, jobs=1)


@pytest.fixture(scope="module")
def normalizer(many_index):
    return Normalizer.load(many_index)


@pytest.fixture(scope="module")
def rest(many_index, normalizer, tmp_path_factory):
    app = made(many_index, tmp_path_factory.mktemp("s"), normalizer=normalizer, settings=SMALL)
    with client(app) as found:
        yield found


def refused(answer, status, code, limit=None):
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error.get("limit")) == (status, code, limit)
    assert error["message"]
    return error


# Sizes


@pytest.mark.parametrize(
    ("asked", "limit"),
    [({"texts": ["x"] * (TEXTS + 1)}, TEXTS), ({"texts": ["x" * (LENGTH + 1)]}, LENGTH),
     ({"texts": [], "top": TOP + 1}, TOP), ({"texts": [], "types": ["x"] * (NAMES + 1)}, NAMES),
     ({"texts": [], "threshold": 1.5}, 1)],
    ids=["batch", "length", "top", "filter", "threshold"],
)  # fmt: skip
def test_limits_of_fields(rest, asked, limit):
    refused(rest.post("/v1/normalize", json=asked), 422, "limit", limit)


def test_what_is_at_the_limit_is_answered(rest):
    asked = {"texts": ["x"] * TEXTS, "top": TOP}
    assert len(rest.post("/v1/normalize", json=asked).json()["answers"]) == TEXTS
    refused(rest.get("/v1/search", params={"q": "x" * (LENGTH + 1)}), 422, "limit", LENGTH)


def test_bodies(rest):
    whole = b'{"texts": ["' + b"x" * 30_000 + b'"]}'
    json_ = {"content-type": "application/json"}
    refused(rest.post("/v1/normalize", content=whole, headers=json_), 413, "too_large", 20_000)

    def chunks():
        for start in range(0, len(whole), 1000):
            yield whole[start : start + 1000]

    answer = rest.post("/v1/normalize", content=chunks(), headers=json_)
    assert "content-length" not in answer.request.headers
    refused(answer, 413, "too_large", 20_000)
    assert rest.post("/v1/normalize", json={"texts": ["fever"]}).status_code == 200


@pytest.mark.parametrize("start", [b"[", b'{"texts":', b'{"texts":[['])
def test_json_that_is_nested_deep_is_refused(many_index, normalizer, tmp_path, start):
    app = made(many_index, tmp_path, normalizer=normalizer)
    with client(app) as rest:
        for end in (b"", b"]" if start == b"[" else b"}"):
            content = start * 100_000 + b"1" + end * 100_000
            json_ = {"content-type": "application/json"}
            answer = rest.post("/v1/normalize", content=content, headers=json_)
            assert answer.status_code in (400, 422), answer.text
            assert answer.json()["error"]["message"]
        assert rest.post("/v1/normalize", json={"texts": ["fever"]}).status_code == 200


def test_uploads_are_limited(rest):
    content = TABLE + b"x" * 51_000
    refused(upload(rest, content), 413, "too_large", 50_000)
    refused(upload(rest, content * 3), 413, "too_large", 50_000)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/worksheets/sheet1.xml", b"0" * 200_000)
    refused(upload(rest, packed.getvalue(), "x.xlsx"), 413, "too_large", 100_000)


def test_old_uploads_are_forgotten(rest):
    sent = [upload(rest).json()["upload"] for _ in range(5)]
    folder = rest.app.state.serving.folder / "uploads"
    kept = {file.stem for file in folder.iterdir()}
    assert kept == set(sent[-3:])
    answer = rest.post("/v1/map", json={"upload": sent[0], "column": "text"})
    refused(answer, 404, "no_upload")


def test_jobs_are_limited_and_can_be_cancelled(rest, normalizer, monkeypatch):
    go_on, begun = threading.Event(), threading.Event()
    plain = Normalizer.normalize_many

    def slow(self, texts, **options):
        if texts == ["slow"]:
            begun.set()
            assert go_on.wait(30)
        return plain(self, texts, **options)

    monkeypatch.setattr(Normalizer, "normalize_many", slow)
    sent = upload(rest, b"text\nslow\n").json()["upload"]
    asked = {"upload": sent, "column": "text"}
    first = rest.post("/v1/map", json=asked).json()
    assert begun.wait(30)
    answer = rest.post("/v1/map", json=asked)
    refused(answer, 429, "too_many_jobs", 1)
    assert int(answer.headers["retry-after"]) > 0
    assert rest.delete(f"/v1/jobs/{first['id']}").status_code == 200
    go_on.set()
    assert finished(rest, first["id"])["state"] == "cancelled"
    assert first["id"] not in rest.app.state.serving.projects()
    refused(rest.get(f"/v1/jobs/{'0' * 32}"), 404, "no_job")


def test_requests_at_work_are_limited(many_index, tmp_path, monkeypatch):
    """Those who ask whether the service lives get an answer all the same."""
    go_on, begun = threading.Event(), threading.Event()
    plain = Normalizer.normalize_many

    def slow(self, texts, **options):
        if texts == ["slow"]:
            begun.set()
            assert go_on.wait(30)
        return plain(self, texts, **options)

    monkeypatch.setattr(Normalizer, "normalize_many", slow)
    answers = []
    with running(made(many_index, tmp_path, settings=Settings(requests=1))) as (base, _):
        until(lambda: httpx.get(f"{base}/readyz").status_code == 200)

        def ask():
            answers.append(httpx.post(f"{base}/v1/normalize", json={"texts": ["slow"]}, timeout=30))

        caller = threading.Thread(target=ask)
        caller.start()
        assert begun.wait(30)
        for answer in (
            httpx.post(f"{base}/v1/normalize", json={"texts": ["fever"]}),
            httpx.get(f"{base}/v1/filters"),
        ):
            refused(answer, 429, "too_many_requests", 1)
            assert int(answer.headers["retry-after"]) > 0
        for path in ("/healthz", "/readyz", "/metrics"):
            assert httpx.get(f"{base}{path}").status_code == 200
        go_on.set()
        caller.join(30)
        assert answers[0].status_code == 200
        assert httpx.get(f"{base}/v1/filters").status_code == 200


# Bad files


def test_bad_uploads(rest, tmp_path):
    draw = random.Random(5)
    whole = _workbook()
    for ending in ("csv", "tsv", "txt", "xlsx", "xlsm", "parquet"):
        for content in (
            b"", b"\0" * 100, b"\xff\xfe\x00", draw.randbytes(500), b'a,b\n"x', TABLE[:7] * 30,
            b"PAR1" + draw.randbytes(50) + b"PAR1", whole[: len(whole) // 2], b"PK\x03\x04" * 9,
            _damaged(whole, draw), _damaged(whole, draw),
        ):  # fmt: skip
            answer = upload(rest, content, f"x.{ending}")
            # 413: damage may make a workbook seem huge once it is unpacked.
            assert answer.status_code in (201, 413, 422), (ending, content, answer.text)
            if answer.status_code == 422:
                assert str(rest.app.state.serving.folder) not in answer.text
    for name in ("x.exe", "x", "../../../etc/passwd", ".csv\0.exe"):
        refused(upload(rest, TABLE, name), 415, "format")
    refused(upload(rest, TABLE, "x.csv", encoding="klingon"), 422, "bad_input")
    folder = rest.app.state.serving.folder
    outside = [path.name for path in folder.iterdir() if path.is_file()]
    assert outside == ["lock"]


def _workbook():
    from openpyxl import Workbook

    book, out = Workbook(), io.BytesIO()
    book.active.append(["text"])
    book.save(out)
    return out.getvalue()


def _damaged(content, draw):
    broken = bytearray(content)
    for _ in range(40):
        broken[draw.randrange(len(broken))] = draw.randrange(256)
    return bytes(broken)


def test_names_of_files_are_not_used(rest):
    answer = upload(rest, TABLE, "../../up.csv").json()
    folder = rest.app.state.serving.folder
    assert answer["name"] == "up.csv"
    assert (folder / "uploads" / f"{answer['upload']}.csv").read_bytes() == TABLE
    assert not list(folder.parent.rglob("up.csv"))


# Who may ask


def test_a_token(many_index, normalizer, tmp_path):
    app = made(many_index, tmp_path, normalizer=normalizer, settings=Settings(token=TOKEN))
    with client(app) as rest:
        for given in (None, "", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "é"):
            headers = {} if given is None else {"authorization": given.encode()}
            for path in ("/v1/filters", "/metrics", "/v1/nothing"):
                answer = rest.get(path, headers=headers)
                refused(answer, 401, "token")
                assert answer.headers["www-authenticate"] == "Bearer"
        asked = {"authorization": f"Bearer {TOKEN}"}
        assert rest.get("/v1/filters", headers=asked).status_code == 200
        assert rest.get("/healthz").status_code == 200
        assert rest.get("/", headers={"host": "example.org"}).status_code == 200
    with pytest.raises(UsageError, match="at least 16"):
        Settings(token="short")


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "", "x@127.0.0.1", "[::1", "[x]"]
)
def test_without_a_token_only_names_of_this_machine_count(rest, host):
    refused(rest.get("/v1/filters", headers={"host": host}), 421, "host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "[::1]:9", "127.0.0.1:8000"])
def test_names_of_this_machine(rest, host):
    assert rest.get("/v1/filters", headers={"host": host}).status_code == 200


def test_other_sites(rest):
    for origin in ("https://example.org", "null", "http://127.0.0.1:9", "http://[", "http://[x]"):
        refused(rest.get("/v1/filters", headers={"origin": origin}), 403, "origin")
        answer = rest.options(
            "/v1/normalize", headers={"origin": origin, "access-control-request-method": "POST"}
        )
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert rest.get("/v1/filters", headers={"origin": "http://127.0.0.1"}).status_code == 200


def test_headers_of_every_reply(rest):
    for path in ("/", "/v1/filters", "/v1/concepts/nope", "/docs", "/metrics", "/nothing"):
        answer = rest.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert ("no-store" in answer.headers["cache-control"]) == path.startswith(("/v1", "/metr"))
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert rest.get("/v1/normalize").status_code == 405
    assert rest.get("/v1/normalize").headers["allow"] == "POST"


# Beginning and end


def test_ready_once_the_index_is_loaded(many_index, tmp_path):
    go_on = threading.Event()

    def load():
        assert go_on.wait(30)
        return Normalizer.load(many_index)

    from fastapi.testclient import TestClient

    from medcoder.serve import make_app

    with TestClient(make_app(load, folder=tmp_path), base_url="http://localhost") as rest:
        assert rest.get("/healthz").status_code == 200
        assert (rest.get("/readyz").status_code, rest.get("/readyz").json()) == (
            503, {"ready": False}
        )  # fmt: skip
        answer = rest.post("/v1/normalize", json={"texts": ["fever"]})
        refused(answer, 503, "loading")
        assert int(answer.headers["retry-after"]) > 0
        go_on.set()
        until(lambda: rest.get("/readyz").status_code == 200)
        assert rest.post("/v1/normalize", json={"texts": ["fever"]}).status_code == 200


def test_going_down_finishes_what_is_in_flight(many_index, tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    plain = Normalizer.normalize_many

    def slow(self, texts, **options):
        if "fever" in texts:
            begun.set()
            assert go_on.wait(30)
        return plain(self, texts, **options)

    monkeypatch.setattr(Normalizer, "normalize_many", slow)
    answers = []
    with running(made(many_index, tmp_path)) as (base, server):
        until(lambda: httpx.get(f"{base}/readyz").status_code == 200)

        def ask():
            answers.append(httpx.post(f"{base}/v1/normalize", json={"texts": ["fever"]}))

        caller = threading.Thread(target=ask)
        caller.start()
        assert begun.wait(30)
        server.should_exit = True
        go_on.set()
        caller.join(30)
    assert answers[0].json()["answers"][0]["query"] == "fever"


def test_a_job_goes_on_after_a_restart(many_index, tmp_path, monkeypatch):
    from medcoder.serve import jobs as room

    real, calls = room.map_table, []

    def broken_off(*rest, progress, **options):
        calls.append(1)
        if len(calls) == 1:
            closing.start()
            until(app.state.serving.jobs.all()[0].stop.is_set)
            progress("reading", 1, 1)
        return real(*rest, progress=progress, **options)

    monkeypatch.setattr(room, "map_table", broken_off)
    app = made(many_index, tmp_path)
    closing = threading.Thread(target=Jobs.close, args=[app.state.serving.jobs])
    with client(app) as rest:
        sent = upload(rest).json()["upload"]
        job = rest.post("/v1/map", json={"upload": sent, "column": "text"}).json()["id"]
        until(lambda: closing.ident)  # it has begun
        closing.join(30)
    with client(made(many_index, tmp_path)) as rest:
        assert finished(rest, job)["state"] == "done"
        assert rest.get(f"/v1/projects/{job}").json()["rows"] == 4
    assert len(calls) == 2
