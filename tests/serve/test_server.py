"""Callers that dawdle: a real server, and sockets that send or read half of something."""

import contextlib
import json
import resource
import signal
import socket
import threading

import httpx
import pytest

from support.served import HERE, process, until, upload

HEAD = b"POST /v1/normalize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SHORT = (
    "--head-seconds", 0.3, "--body-seconds", 0.3, "--reply-seconds", 0.3, "--idle-seconds", 1,
    "--connections", 40,
)  # fmt: skip
SECONDS = 30  # of patience


@pytest.fixture(scope="module")
def port(many_index, tmp_path_factory):
    with process(many_index, tmp_path_factory.mktemp("serve"), *SHORT) as (_, port):
        until(lambda: httpx.get(f"{HERE}:{port}/readyz").status_code == 200)
        yield port


@pytest.fixture
def call(port):
    """Opens a socket and sends something."""
    opened = []

    def call(sent=b""):
        opened.append(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))
        opened[-1].sendall(sent)
        return opened[-1]

    yield call
    for one in opened:
        one.close()


def everything(caller):
    """What comes until the other side ends it."""
    found = b""
    try:
        while more := caller.recv(65536):
            found += more
    except ConnectionResetError:
        pass
    return found


def one_reply(caller):
    """A reply, of a connection that stays."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += caller.recv(1)
    size = next(one for one in found.lower().split(b"\r\n") if one.startswith(b"content-length"))
    for _ in range(int(size.split()[1])):
        found += caller.recv(1)
    return found


def refusal(reply):
    """Status, code and limit of a reply, which has the headers of all."""
    head, _, body = reply.partition(b"\r\n\r\n")
    assert b"x-content-type-options: nosniff" in head.lower()
    error = json.loads(body)["error"]
    return int(head.split()[1]), error["code"], error.get("limit")


def lives(port):
    return httpx.get(f"{HERE}:{port}/healthz", timeout=SECONDS).json() == {"ok": True}


@pytest.mark.parametrize("sent", [b"GET / HT", HEAD, HEAD + b"X: y"])
def test_half_a_head(call, sent):
    assert refusal(everything(call(sent))) == (408, "too_slow", 0.3)


def test_a_head_that_comes_drop_by_drop(call):
    caller, replies = call(HEAD), []
    reading = threading.Thread(target=lambda: replies.append(everything(caller)))
    reading.start()
    while reading.is_alive():
        try:
            caller.sendall(b"X-Drop: 1\r\n")
        except OSError:  # it is closed
            break
        reading.join(0.05)
    reading.join(SECONDS)
    assert refusal(replies[0]) == (408, "too_slow", 0.3)


def test_nothing_sent_is_closed_without_a_word(call):
    assert everything(call()) == b""


def test_a_second_request_that_is_half_sent(call):
    caller = call(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b'{"ok":true}' in one_reply(caller)
    caller.sendall(HEAD)
    assert refusal(everything(caller)) == (408, "too_slow", 0.3)


@pytest.mark.parametrize("length", [b"Content-Length: 999\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_half_a_body(call, length):
    caller = call(HEAD + length + b"\r\n5\r\n{")
    assert refusal(everything(caller)) == (408, "too_slow", 0.3)


def test_a_refused_body_cannot_go_on_for_ever(call):
    caller = call(HEAD + b"Content-Length: 999999999\r\n\r\n")
    assert refusal(one_reply(caller)) == (413, "too_large", 4 << 20)
    with pytest.raises(ConnectionError):
        while True:
            caller.sendall(b"x" * 65536)
            threading.Event().wait(0.01)


@pytest.mark.parametrize(
    ("sent", "status", "limit"),
    [(b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414, 32 << 10),
     (b"GET /" + b"x" * 100_000, 414, 32 << 10),
     (HEAD + b"X: " + b"x" * 100_000, 431, 64 << 10),
     (HEAD + b"X: " + b"x" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n", 431, 64 << 10)],
    ids=["address", "endless address", "endless head", "head"],
)  # fmt: skip
def test_long_heads(call, sent, status, limit):
    caller = call(sent)
    caller.shutdown(socket.SHUT_WR)
    assert refusal(everything(caller)) == (status, "too_large", limit)


def test_what_is_no_http(call):
    assert refusal(everything(call(b"\x16\x03\x01 hello\r\n\r\n"))) == (400, "http", None)


def test_a_caller_that_does_not_read(call, port):
    """Its requests are answered as long as there is room, then it is dropped."""
    caller = call()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with pytest.raises(ConnectionError):
        while True:
            caller.sendall(asked * 100)
    assert lives(port)


def test_more_connections_than_may_be(call, port):
    """New callers get in; those who dawdle longest are dropped."""
    half = [call(HEAD) for _ in range(100)]
    assert lives(port)
    assert everything(half[0]) == b""


def test_few_open_files(many_index, tmp_path):
    """More half-sent heads than the process may open files."""

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    with process(many_index, tmp_path, preexec_fn=few) as (child, port):
        assert "At most 50 connections: this process may open 200 files only" in child.said[0]
        half = [socket.create_connection(("127.0.0.1", port)) for _ in range(250)]
        for one in half:
            with contextlib.suppress(OSError):  # it is dropped already
                one.send(HEAD)
        assert lives(port)
        for one in half:
            one.close()


# The end


@contextlib.contextmanager
def deaf(port):
    """A caller that asks until it cannot ask any more, and does not read."""
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                caller.send(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        yield


def test_nobody_holds_up_the_end(many_index, tmp_path):
    """Neither half-sent requests, nor one that does not read, nor a table that is mapped."""
    with contextlib.ExitStack() as stack:
        child, port = stack.enter_context(process(many_index, tmp_path, "--grace-seconds", 2))
        with httpx.Client(base_url=f"{HERE}:{port}", timeout=SECONDS) as rest:
            until(lambda: rest.get("/readyz").status_code == 200)
            rows = "".join(f"some rare words number {number}\n" for number in range(20_000))
            sent = upload(rest, b"text\n" + rows.encode()).json()["upload"]
            job = rest.post("/v1/map", json={"upload": sent, "column": "text"}).json()["id"]
            until(lambda: rest.get(f"/v1/jobs/{job}").json()["state"] == "running")
        for sent in [HEAD] * 5 + [HEAD + b"Content-Length: 999\r\n\r\n{"] * 5:
            caller = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            caller.sendall(sent)
        stack.enter_context(deaf(port))
        child.send_signal(signal.SIGTERM)
        assert child.wait(SECONDS) == 0
        assert "Traceback" not in child.stderr.read()
    described = json.loads((tmp_path / "jobs" / job / "job.json").read_text(encoding="utf-8"))
    assert described["state"] == "waiting"  # it goes on at the next start


def test_a_second_signal_ends_it_at_once(many_index, tmp_path):
    with process(many_index, tmp_path, "--grace-seconds", 600) as (child, port), deaf(port):
        until(lambda: child.poll() is not None or child.send_signal(signal.SIGTERM))
        assert child.returncode == 128 + signal.SIGTERM
