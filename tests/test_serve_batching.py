"""Many small requests are looked up together, and each gets its own answer."""

import asyncio
import threading

import httpx
import pytest

from many import QUERIES
from medcoder import Normalizer
from medcoder.errors import UnknownName
from medcoder.serve.batching import Batcher
from medcoder.serve.refusals import Refused
from medcoder.serve.settings import Settings
from served import made, running, until


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
    return Batcher(looked, **{"window": 0.01, "batch": 100, "queue": 1000} | options)


def test_requests_of_one_moment_go_together():
    looked, sizes = Looked(), []

    async def main():
        batcher = batched(looked, told=lambda *some: sizes.append(some))
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


def test_without_a_window_each_goes_alone():
    looked = Looked()

    async def main():
        batcher = batched(looked, window=None)
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
        assert (refused.value.status_code, refused.value.code) == (503, "queue_full")
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


def test_many_callers_of_a_server(many_index, tmp_path, monkeypatch):
    """The first call is held up: what comes meanwhile goes in a few."""
    normalizer = Normalizer.load(many_index)
    plain = Normalizer.normalize_many
    calls, go_on = [], threading.Event()

    def counted(self, texts, **options):
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
    assert (full.status_code, full.json()["error"]["code"]) == (503, "queue_full")
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
