"""What requests leave behind in memory, by what Python and numpy have allocated."""

import gc
import http.client
import json
import tracemalloc
from urllib.parse import quote, urlsplit

import pytest

from medcoder.serve.middleware import RequestLog
from medcoder.serve.settings import Settings
from support.served import made, running

WARM, ROUNDS = 20, 30  # rounds of requests before memory counts, and while it does
BOUND = 1500 * ROUNDS  # bytes: less than the long string of each round


def a_round(ask, number):
    """Statuses of requests that no other round makes: what is kept by what was sent, adds up."""
    long = f"fever {number:06} " + "of a long and rare kind " * 80
    return [
        ask("POST", "/v1/normalize", {"texts": [long, "heart attack"], "top": 3}),
        ask("POST", "/v1/normalize", {"texts": ["cold"], "threshold": number / 10_000}),
        ask("GET", f"/v1/search?q={quote(long)}"),
        ask("POST", "/v1/embed", {"texts": [long]}),
        ask("GET", "/v1/filters"),
        ask("GET", "/metrics"),
        ask("GET", f"/v1/nowhere/{quote(long)}"),
        ask("GET", f"/v1/concepts/{number}"),
        ask("POST", "/v1/normalize", {"texts": ["cold"], "types": [long[:200]]}),
        ask("POST", "/v1/normalize", {long: number}),
        ask("POST", "/v1/normalize", [long]),
    ]


def left_behind(base):
    """Bytes that the rounds leave; the first ones are left out, which load what is used at all."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=30)

    def ask(method, path, body=None):
        sent = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            reply = connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            # A kept-alive connection that the server closed meanwhile: clients open another.
            connection.close()
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            reply = connection.getresponse()
        with reply:  # others' clients keep addresses for a while
            reply.read()
            return reply.status

    def rounds(first, count):
        for number in range(first, first + count):
            assert a_round(ask, number) == [200] * 6 + [404] * 3 + [422] * 2
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = rounds(0, WARM)
        return rounds(WARM, ROUNDS) - before
    finally:
        tracemalloc.stop()
        connection.close()


@pytest.fixture(scope="module")
def served(many_index, tmp_path_factory):
    settings = Settings(answers=0)  # those that are kept are bounded, but not so soon
    with running(made(many_index, tmp_path_factory.mktemp("serve"), settings=settings)) as (
        base,
        _,
    ):
        yield base


def test_requests_leave_nothing_behind(served):
    assert left_behind(served) < BOUND


def test_what_is_left_behind_would_be_found(served, monkeypatch):
    """The addresses that were asked for kept, as a log in memory would."""
    plain, kept = RequestLog.__call__, []

    async def keeping(self, scope, receive, send):
        kept.append(f"{scope['path']}?{scope.get('query_string')}")
        await plain(self, scope, receive, send)

    monkeypatch.setattr(RequestLog, "__call__", keeping)
    assert left_behind(served) > BOUND
