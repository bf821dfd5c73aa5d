"""Every route of the web application, with good and bad requests, in this order."""

import gzip
import json
import shutil
import time
from pathlib import Path

from cli_cases import GRAPH, run
from compared import HERE, plain

BASE = "http://127.0.0.1"
# Headers of replies that belong to the interface.
KEPT = ("content-type", "content-disposition", "x-medcoder-notes", "retry-after", "allow",
        "www-authenticate", "content-security-policy", "x-frame-options", "location")  # fmt: skip
_LONG = ("content-security-policy", "x-frame-options")  # recorded once


def prepare(folder):
    """An index and a project with decisions."""
    (folder / "toy").mkdir()
    for name in GRAPH:
        shutil.copy(HERE / "toy" / f"{name}.csv", folder / "toy")
    shutil.copy(HERE / "toy" / "ward.csv", folder)
    shutil.copy(HERE / "toy" / "CONCEPT.csv", folder)
    table = ["--column", "text", "--code", "id", "--count", "n", "--language", "lang"]
    for words in (
        ["kg", "build", "table=toy", "--out", "toy.kg"],
        ["index", "build", "--kg", "toy.kg", "--out", "toy.index"],
        ["map", "ward.csv", *table, "--index", "toy.index", "--top", "3", "--out", "p"],
        ["map", "decide", "p", "1", "C0027051", "--note", "sure"],
        ["map", "decide", "p", "6", "--no-match"],
    ):
        done = run(*words)
        assert done["exit"] == 0, done


def cases(folder):
    from fastapi.testclient import TestClient

    from medcoder import Normalizer
    from medcoder.serve import make_app

    prepare(Path())
    projects = {"ward": Path("p/project.sqlite").absolute()}
    app = make_app(Normalizer.load("toy.index"), folder=Path("serve"), projects=projects)
    found = {}
    with TestClient(app, base_url=BASE) as client:
        _until(lambda: client.get("/readyz").status_code == 200)

        def ask(method, path, *, name=None, **options):
            reply = client.request(method, path, **options)
            case = name or f"{method} {path}" + _shown(options)
            assert case not in found, case
            asked = {"asked": f"{method} {reply.request.url.path}"}
            found[case] = plain(asked | _reply(reply, first=not found), folder)
            return reply

        _lookup(ask)
        _concepts(ask)
        _review(ask)
        _exports(ask)
        _jobs(ask, client)
        _others(ask)
    return found


def _shown(options):
    said = {key: options[key] for key in ("params", "json", "headers") if key in options}
    text = f" {json.dumps(said, ensure_ascii=False)}" if said else ""
    return text if len(text) <= 160 else f"{text[:160]}…"


def _reply(reply, *, first):
    headers = {name: reply.headers[name] for name in KEPT if name in reply.headers}
    if not first:
        headers = {name: value for name, value in headers.items() if name not in _LONG}
    kind = headers.get("content-type", "")
    if kind.startswith("application/json"):
        body = reply.json()
    elif kind.startswith(("text/html", "text/css", "text/javascript")):
        body = f"{kind.split(';')[0]}"
    elif kind.startswith("text/plain"):
        body = sorted({line.split("{")[0].split(" ")[0] if line[0] != "#" else line
                       for line in reply.text.splitlines() if line})  # fmt: skip
    else:
        body = _file(reply)
    return {"status": reply.status_code, "headers": headers, "body": body}


def _file(reply):
    try:
        text = reply.content.decode()
    except UnicodeDecodeError:
        return "not a text"
    return text.replace("\r\n", "\n").split("\n")


def _until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def _lookup(ask):
    url = "/v1/normalize"
    ask("POST", url, json={"texts": ["hart attack", "fiebre", "zzz qqq", ""]})
    for more in (
        {"top": 1}, {"types": ["Finding"]}, {"vocabularies": ["MSH"]}, {"languages": ["es"]},
        {"threshold": 1}, {"top": 0}, {"top": 101}, {"types": ["Fnding"]},
        {"vocabularies": ["X"]}, {"languages": ["xx"]}, {"threshold": 2}, {"nonsense": 1},
    ):  # fmt: skip
        ask("POST", url, json={"texts": ["cold"]} | more)
    ask("POST", url, json={"texts": []})
    ask("POST", url, json={"texts": "cold"})
    ask("POST", url, json={})
    ask("POST", url, json={"texts": ["x" * 20_000]}, name="POST /v1/normalize of a long string")
    ask("POST", url, json={"texts": ["x"] * 20_000}, name="POST /v1/normalize of many strings")
    ask("POST", url, content=b"{", name="POST /v1/normalize of no JSON")
    ask("POST", url, content=b"x" * (5 << 20), name="POST /v1/normalize of 5 MB")
    ask("GET", url)
    for params in (
        {"q": "hedache"}, {"q": "cold", "top": 2, "types": "Finding"}, {"q": ""}, {},
        {"q": "cold", "top": 0}, {"q": "cold", "vocabularies": "X"}, {"q": "zzz qqq", "top": 2},
        {"q": "cold", "languages": ["es", "ja"], "vocabularies": ["MSH", "SNOMEDCT_US"]},
    ):  # fmt: skip
        ask("GET", "/v1/search", params=params)
    ask("POST", "/v1/embed", json={"texts": ["fiebre"]})
    ask("POST", "/v1/embed", json={"texts": []})
    ask("POST", "/v1/embed", json={"texts": [1]})


def _concepts(ask):
    for path in (
        "C0027051", "C0009443", "C0018681?relations=1", "C0018681?relations=-1", "C404",
        "C0027051/neighbours?top=3", "C0009443/neighbours?top=0", "C404/neighbours",
    ):  # fmt: skip
        ask("GET", f"/v1/concepts/{path}")
    ask("GET", "/v1/filters")


def _review(ask):
    at = "/v1/projects/ward"
    ask("GET", "/v1/projects")
    ask("GET", at)
    ask("GET", "/v1/projects/nowhere")
    for query in (
        "", "?status=review", "?status=odd", "?sort=count&limit=2", "?sort=luck", "?q=fever",
        "?q=A4", "?offset=2&limit=1&sort=row", "?limit=0",
    ):  # fmt: skip
        ask("GET", f"{at}/terms{query}")
    for key in ("1", "2", "404", "0", "x"):
        ask("GET", f"{at}/terms/{key}")
        ask("GET", f"{at}/terms/{key}/history")
    made = f"{at}/terms/3/decision"
    ask("POST", made, json={"concept": "C0234192", "who": "bob", "equivalence": "related"})
    ask("POST", made, json={"concept": None, "who": "ann", "expected_version": 0})
    ask(
        "POST", made, json={"concept": "C0004057", "who": "ann", "note": "w", "expected_version": 1}
    )
    ask("POST", made, json={"concept": "C404", "who": "ann"})
    ask("POST", made, json={"concept": "C0234192"})
    ask("POST", made, json={"concept": "C0234192", "who": ""})
    ask("POST", made, json={"concept": "C0234192", "who": "ann", "equivalence": "alike"})
    ask("POST", f"{at}/terms/404/decision", json={"concept": None, "who": "ann"})
    ask("POST", "/v1/projects/nowhere/terms/1/decision", json={"concept": None, "who": "ann"})
    ask("POST", f"{at}/terms/3/undo", json={"who": "ann", "note": "no", "expected_version": 2})
    ask("POST", f"{at}/terms/3/undo", json={"who": "ann", "expected_version": 2})
    ask("POST", f"{at}/terms/2/undo", json={"who": "ann"})
    ask("POST", f"{at}/undo", json={"who": "bob"})
    ask("POST", f"{at}/undo", json={"who": "nobody"})
    ask("POST", f"{at}/undo", json={})
    ask("POST", f"{at}/accept", json={"who": "eve", "precision": 0.9, "only_count": True})
    ask("POST", f"{at}/accept", json={"who": "eve", "threshold": 0.99})
    ask("POST", f"{at}/accept", json={"who": "eve"})
    ask("POST", f"{at}/accept", json={"who": "eve", "threshold": 3})
    ask("GET", f"{at}/changes")
    ask("GET", f"{at}/changes?since=3&limit=2")
    ask("GET", f"{at}/changes?since=-1")
    ask("POST", f"{at}/calibrate", json={"who": "eve", "dry_run": True})
    ask("POST", f"{at}/calibrate", json={})
    ask("POST", f"{at}/calibrate/undo", json={})
    ask("GET", at, name="GET the project at the end")


def _exports(ask):
    at = "/v1/projects/ward/exports"
    ask("GET", "/v1/exports")
    for form in ("csv", "xlsx", "parquet", "sssom", "fhir", "usagi", "omop", "cvs"):
        ask("GET", f"{at}/{form}")
    ask("GET", "/v1/projects/nowhere/exports/csv")
    ask("GET", f"{at}/fhir?url=http://ward.example/map")
    ask("GET", f"{at}/omop?concepts=nowhere")
    content = Path("CONCEPT.csv").read_bytes()
    sent = {"file": ("CONCEPT.csv", content)}
    table = ask("POST", "/v1/concept-tables", files=sent).json()["concepts"]
    packed = {"file": ("CONCEPT.csv.gz", gzip.compress(content))}
    ask("POST", "/v1/concept-tables", files=packed, name="POST a packed CONCEPT table")
    bad = {"file": ("CONCEPT.csv", b"a\tb\n1\t2\n")}
    ask("POST", "/v1/concept-tables", files=bad, name="POST a CONCEPT table that is none")
    ask("POST", "/v1/concept-tables", name="POST no CONCEPT table")
    ask("GET", f"{at}/omop", params={"concepts": table}, name="GET omop with concepts")
    some = {"concepts": table, "missing_ok": True, "source_vocabulary": "WARD"}
    ask("GET", f"{at}/omop", params=some, name="GET omop with some concepts missing")
    ask("GET", f"{at}/usagi", params=some, name="GET usagi with a source vocabulary")
    del some["source_vocabulary"]
    ask("GET", f"{at}/usagi", params=some, name="GET usagi with some concepts missing")


def _jobs(ask, client):
    content = Path("ward.csv").read_bytes()
    sent = ask("POST", "/v1/uploads", files={"file": ("ward.csv", content)}).json()["upload"]
    for name, file in (
        ("a text", ("ward.txt", b"x")), ("no bytes", ("ward.csv", b"")),
        ("no workbook", ("ward.xlsx", b"not one")), ("other letters", ("ward.csv", b"id\n\xe8\n")),
        ("an odd name", ("../a\\b.csv", b"id,text\n1,cold\n")),
    ):  # fmt: skip
        ask("POST", "/v1/uploads", files={"file": file}, name=f"POST an upload of {name}")
    latin = {"file": ("ward.csv", b"id\n\xe8\n")}
    ask("POST", "/v1/uploads?encoding=cp1252", files=latin)
    ask("POST", "/v1/uploads", name="POST no upload")
    good = {"upload": sent, "column": "text", "code": "id", "count": "n", "name": "my ward"}
    more = {"context": {"kind": "type"}, "language": "lang", "top": 2, "precision": 0.9}
    for name, asked in (
        ("an unknown upload", good | {"upload": "0" * 32}), ("no column", good | {"column": "x"}),
        ("a role that is none", good | {"context": {"kind": "unit"}}),
        ("an unknown vocabulary", good | {"vocabularies": ["X"]}),
        ("too high a precision", good | {"precision": 1}), ("nothing", {}),
    ):  # fmt: skip
        ask("POST", "/v1/map", json=asked, name=f"POST a map of {name}")
    job = client.post("/v1/map", json=good | more).json()["id"]
    states = ("waiting", "running")
    _until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] not in states)
    ask("GET", f"/v1/jobs/{job}", name="GET the job that is done")
    ask("DELETE", f"/v1/jobs/{job}", name="DELETE the job that is done")
    failing = client.post("/v1/map", json=good | {"count": "text"}).json()["id"]
    _until(lambda: client.get(f"/v1/jobs/{failing}").json()["state"] not in states)
    ask("GET", f"/v1/jobs/{failing}", name="GET the job that failed")
    ask("GET", "/v1/jobs")
    ask("GET", "/v1/jobs/nowhere")
    ask("DELETE", "/v1/jobs/nowhere")
    ask("GET", f"/v1/projects/{job}", name="GET the project of the job")
    ask("GET", f"/v1/projects/{job}/terms?limit=3&sort=row", name="GET terms of the job's project")
    ask("GET", f"/v1/projects/{job}/exports/csv", name="GET the export of the job's project")


def _others(ask):
    for path in (
        "/", "/index.html", "/main.js", "/docs", "/docs/style.css", "/openapi.json", "/healthz",
        "/readyz", "/metrics", "/nowhere", "/v1/nowhere", "/v1",
    ):  # fmt: skip
        ask("GET", path)
    ask("POST", "/healthz")
    ask("GET", "/healthz", headers={"Host": "example.org"})
    ask("GET", "/v1/filters", headers={"Origin": "http://example.org"})
