"""Many small requests are looked up together, and each gets its own answer."""

import asyncio
import json
import subprocess
import sys
import threading

import httpx
import pytest

from medcoder import Normalizer
from medcoder.errors import UnknownName
from medcoder.serve import engine, state
from medcoder.serve.engine import Batcher
from medcoder.serve.error_replies import Refused
from medcoder.serve.settings import Settings
from support.many import QUERIES
from support.served import client, made, running, until

THREADS = """
import json, threading
from types import SimpleNamespace
from threadpoolctl import threadpool_info, threadpool_limits
from medcoder.serve.engine import Engine

def threads():  # a library that shares OpenMP with faiss is left alone
    blas = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return [one["num_threads"] for one in blas if one.get("threading_layer") != "openmp"]

one = threading.Thread(target=threadpool_limits, args=(3, "blas"))
one.start()
one.join()  # only what lives keeps others from setting it
engine, said = Engine(SimpleNamespace(encoder=None)), [threads()]
engine.prepare()
said.append(threads())
engine.close()
print(json.dumps([*said, threads()]))
"""


class Looked:
    """Answers strings with themselves and the options; counts calls."""

    def __init__(self, seconds=0.0):
        self.calls, self.seconds = [], seconds

    async def __call__(self, texts, options):
        self.calls.append((list(texts), options))
        await asyncio.sleep(self.seconds)
        if options == "bad":
            raise UnknownName("bad")
        if any(text == "poison" for text in texts):
            raise ValueError("poison")
        return [(text, options) for text in texts]


def batched(looked, **options):
    return Batcher(looked, **{"batch": 100, "queue": 1000} | options)


def test_requests_of_one_moment_go_together():
    looked, sizes = Looked(), []

    async def main():
        batcher = batched(looked, count=lambda *some: sizes.append(some))
        asked = [["a", "b"], ["b"], ["c", "a", "c"], []]
        found = await asyncio.gather(*(batcher.ask(texts, "x") for texts in asked))
        await batcher.close()
        return found

    found = asyncio.run(main())
    assert found == [
        [("a", "x"), ("b", "x")], [("b", "x")], [("c", "x"), ("a", "x"), ("c", "x")], [],
    ]  # fmt: skip
    assert looked.calls == [(["a", "b", "c"], "x")]
    assert sizes == [(4, 3)]


def test_options_are_kept_apart():
    looked = Looked()

    async def main():
        batcher = batched(looked)
        return await asyncio.gather(
            batcher.ask(["a"], "x"), batcher.ask(["a"], "y"), batcher.ask(["b"], "x"),
            batcher.ask(["a"], "bad"), return_exceptions=True,
        )  # fmt: skip

    *good, bad = asyncio.run(main())
    assert good == [[("a", "x")], [("a", "y")], [("b", "x")]]
    assert isinstance(bad, UnknownName)
    assert sorted(looked.calls[:2]) == [(["a"], "y"), (["a", "b"], "x")]


def test_one_that_fails_does_not_harm_the_others():
    async def main():
        batcher = batched(Looked())
        return await asyncio.gather(
            batcher.ask(["a"], "x"), batcher.ask(["poison"], "x"), batcher.ask(["b"], "x"),
            return_exceptions=True,
        )  # fmt: skip

    first, failed, last = asyncio.run(main())
    assert (first, last) == ([("a", "x")], [("b", "x")])
    assert isinstance(failed, ValueError)


def test_batches_are_not_larger_than_told():
    looked = Looked()

    async def main():
        batcher = batched(looked, batch=3)
        await asyncio.gather(*(batcher.ask([str(number)], "x") for number in range(7)))
        await batcher.ask([str(number) for number in range(9)], "x")

    asyncio.run(main())
    assert [len(texts) for texts, _ in looked.calls] == [3, 3, 1, 9]


def test_small_requests_go_before_large_ones():
    """And a large one goes on meanwhile, a slice at a time."""
    looked, ended = Looked(), []

    async def main():
        batcher = batched(looked)

        async def ask(name, texts):
            found = await batcher.ask(texts, "x")
            assert found == [(text, "x") for text in texts]
            ended.append(name)

        large = [str(number) for number in range(100)]
        tasks = [
            asyncio.create_task(ask(f"large {n}", [f"{n}/{one}" for one in large])) for n in (1, 2)
        ]
        await asyncio.sleep(0)
        for number in range(3):
            tasks.append(asyncio.create_task(ask(f"small {number}", ["a", f"b{number}"])))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        await batcher.close()

    asyncio.run(main())
    assert ended == ["small 0", "small 1", "small 2", "large 1", "large 2"]
    assert max(len(texts) for texts, _ in looked.calls) == 64
    mixed = [texts for texts, _ in looked.calls if "a" in texts]
    assert all(0 < len([text for text in texts if "/" in text]) <= 2 * 16 for texts in mixed)


def test_a_part_of_a_large_request_that_fails_is_its_failure():
    looked = Looked()

    async def main():
        batcher = batched(looked)
        texts = [str(number) for number in range(200)]
        return await asyncio.gather(
            batcher.ask([*texts[:100], "poison", *texts[100:]], "x"), batcher.ask(texts, "x"),
            return_exceptions=True,
        )  # fmt: skip

    failed, good = asyncio.run(main())
    assert isinstance(failed, ValueError)
    assert good == [(str(number), "x") for number in range(200)]


def test_answers_are_given_again_without_a_look(many_index, tmp_path, monkeypatch):
    """The last few, and only for the same options."""
    calls, plain = [], Normalizer.normalize_many

    def watched(self, texts, **options):
        if list(texts) != ["fever of unknown origin"]:  # the one that shows it is ready
            calls.append(list(texts))
        return plain(self, texts, **options)

    monkeypatch.setattr(Normalizer, "normalize_many", watched)
    with client(made(many_index, tmp_path, settings=Settings(answers=2))) as rest:

        def ask(*texts, **options):
            return rest.post("/v1/normalize", json={"texts": texts, **options}).json()["answers"]

        first = ask("fever", "cold")
        assert ask("cold", "fever", "cold") == [first[1], first[0], first[1]]
        assert calls == [["fever", "cold"]]
        ask("fever", top=1)
        ask("mi")  # in place of the oldest, of which there are two
        assert ask("fever") == first[:1]
        assert calls[1:] == [["fever"], ["mi"], ["fever"]]


def test_a_request_that_finds_nothing_under_way_goes_at_once():
    """No timer: the call is made as soon as the loop has gone round."""
    looked = Looked(3600)

    async def main():
        asked = asyncio.create_task(batched(looked).ask(["a"], "x"))
        for _ in range(5):
            await asyncio.sleep(0)
        asked.cancel()
        return list(looked.calls)

    assert asyncio.run(main()) == [(["a"], "x")]


def test_what_comes_while_others_are_looked_up_goes_together_next():
    go_on, calls = asyncio.Event(), []

    async def look_up(texts, options):
        calls.append(list(texts))
        await go_on.wait()
        return texts

    async def main():
        batcher = batched(look_up)
        asked = [asyncio.create_task(batcher.ask(["first"], "x"))]
        for number in range(4):  # each at a time of its own
            while not calls:
                await asyncio.sleep(0)
            asked.append(asyncio.create_task(batcher.ask([str(number), "same"], "x")))
            await asyncio.sleep(0.001)
        go_on.set()
        return await asyncio.gather(*asked)

    found = asyncio.run(main())
    assert found == [["first"], *([str(number), "same"] for number in range(4))]
    assert calls == [["first"], ["0", "same", "1", "2", "3"]]


def test_if_so_told_each_goes_alone():
    looked = Looked()

    async def main():
        batcher = batched(looked, together=False)
        await asyncio.gather(*(batcher.ask(["a"], "x") for _ in range(4)))

    asyncio.run(main())
    assert looked.calls == [(["a"], "x")] * 4


def test_a_full_queue_refuses_and_recovers():
    async def main():
        batcher = batched(Looked(0.02), queue=3)
        asked = [asyncio.create_task(batcher.ask(["a", "b", "c", "d"], "x"))]  # taken, if alone
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await batcher.ask(["e"], "x")
        assert (refused.value.status_code, refused.value.code) == (429, "queue_full")
        assert int(refused.value.headers["Retry-After"]) > 0
        await asyncio.gather(*asked)
        assert batcher.strings == 0
        return await batcher.ask(["e"], "x")

    assert asyncio.run(main()) == [("e", "x")]


def test_a_caller_who_left_is_not_waited_for():
    looked = Looked()

    async def main():
        batcher = batched(looked)
        gone = asyncio.create_task(batcher.ask(["gone"], "x"))
        await asyncio.sleep(0)
        gone.cancel()
        found = await batcher.ask(["a"], "x")
        await batcher.close()
        assert batcher.strings == 0
        return found

    assert asyncio.run(main()) == [("a", "x")]
    assert looked.calls == [(["a"], "x")]


def test_closing_answers_what_waits():
    async def main():
        batcher = batched(Looked(0.01))
        asked = asyncio.create_task(batcher.ask(["a"], "x"))
        await asyncio.sleep(0)
        await batcher.close()
        return await asked

    assert asyncio.run(main()) == [("a", "x")]


def test_products_of_matrices_have_one_thread_while_it_runs():
    """In a process of its own: what holds such threads there is one for all."""
    found = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    begin, running, end = json.loads(found.stdout)
    assert running == [1] * len(begin)
    assert end == begin == [3] * len(begin)


def test_threads_are_limited_in_a_way_that_older_releases_know(monkeypatch):
    """Those before 3.8 know limits by the kind of a library, not by its file."""
    plain, limited = engine.ThreadpoolController.limit, []

    def limit(self, *, limits):
        limited.append(limits)
        return plain(self, limits=limits)

    monkeypatch.setattr(engine.ThreadpoolController, "limit", limit)
    engine.one_thread()()
    assert limited == [1]


def test_many_callers_of_a_server(many_index, tmp_path, monkeypatch):
    """The first call is held up: what comes meanwhile goes in a few."""
    normalizer = Normalizer.load(many_index)
    plain = Normalizer.normalize_many
    calls, go_on = [], threading.Event()

    def counted(self, texts, **options):
        if texts != [state._TRIED]:  # which is asked before it is ready
            calls.append(list(texts))
            assert go_on.wait(30)
        return plain(self, texts, **options)

    monkeypatch.setattr(Normalizer, "normalize_many", counted)
    app = made(many_index, tmp_path, normalizer=normalizer, settings=Settings(queue=48))
    with running(app) as (base, _):

        async def main():
            limits = httpx.Limits(max_connections=100)
            async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30) as rest:

                def ask(text):
                    return rest.post("/v1/normalize", json={"texts": [text], "top": 3})

                first = asyncio.create_task(ask("first"))
                await asyncio.to_thread(until, lambda: calls)
                texts = [QUERIES[number % len(QUERIES)] for number in range(47)]
                asked = [asyncio.create_task(ask(text)) for text in texts]
                waiting = app.state.serving.answers
                await asyncio.to_thread(until, lambda: waiting.strings == 48)
                full = await ask("one too many")
                go_on.set()
                return await first, texts, await asyncio.gather(*asked), full

        first, texts, found, full = asyncio.run(main())
    assert first.json()["answers"][0]["query"] == "first"
    assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
    assert int(full.headers["retry-after"]) > 0
    for text, answer in zip(texts, found, strict=True):
        [said] = answer.json()["answers"]
        expected = plain(normalizer, [text], top=3)
        assert said["query"] == text
        assert [one["concept"] for one in said["matches"] + said["rejected"]] == [
            one.concept for one in next(iter(expected)).candidates
        ]
    assert calls[0] == ["first"]
    assert sorted(calls[1]) == sorted(set(QUERIES))
    assert len(calls) == 2
