"""Applications of the small index for tests, in this process and as a server."""

import contextlib
import gzip
import os
import socket
import subprocess
import sys
import threading
import time

import uvicorn
from fastapi.testclient import TestClient

from medcoder import Normalizer
from medcoder.serve import make_app

HERE = "http://127.0.0.1"
TABLE = b"id,text,n\n1,heart attack,3\n2,fever cold,2\n3,zzz qqq,1\n4,heart attack,5\n"


def made(index, folder, **options):
    normalizer = options.pop("normalizer", None) or Normalizer.load(index)
    return make_app(normalizer, folder=folder, **options)


@contextlib.contextmanager
def client(app, **options):
    """Requests to an application without a network."""
    with TestClient(app, base_url=HERE, raise_server_exceptions=True, **options) as found:
        until(lambda: found.get("/readyz").status_code == 200)
        yield found


@contextlib.contextmanager
def running(app):
    """The address of a server in a thread."""
    config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    # Said to be TCP: only then does the loop send replies without waiting for acknowledgements.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started)
            yield f"{HERE}:{listening.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextlib.contextmanager
def process(index, folder, *options, **how):
    """A service as a process of its own, and its port."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("MEDCODER_")}
    child = subprocess.Popen(
        [sys.executable, "-m", "medcoder", "serve", "--index", str(index), "--port", "0",
         "--folder", str(folder), *map(str, options)],
        stderr=subprocess.PIPE, text=True, env=bare | {"MEDCODER_HOME": str(folder)}, **how,
    )  # fmt: skip
    try:
        said = []
        while f"{HERE}:" not in "".join(said[-1:]):
            said.append(child.stderr.readline())
            assert said[-1], "".join(said)
        child.said = said[:-1]
        yield child, int(said[-1].rpartition(":")[2])
    finally:
        child.kill()
        child.wait()
        child.stderr.close()


def until(true, seconds=30):
    """Wait for something that will be true soon."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def upload(client, content=TABLE, name="ward.csv", **query):
    return client.post("/v1/uploads", files={"file": (name, content)}, params=query)


def send_concepts(client, table, *, packed=False):
    """Send a CONCEPT table."""
    content = table.read_bytes()
    name, content = ("CONCEPT.csv.gz", gzip.compress(content)) if packed else (table.name, content)
    return client.post("/v1/concept-tables", files={"file": (name, content)})


def map_it(client, **options):
    """The id of the project that a table was mapped to."""
    sent = upload(client).json()["upload"]
    wanted = {"upload": sent, "column": "text", "code": "id", "count": "n"} | options
    job = client.post("/v1/map", json=wanted).json()
    return finished(client, job["id"])["project"]


def finished(client, job):
    until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] not in ("waiting", "running"))
    return client.get(f"/v1/jobs/{job}").json()
