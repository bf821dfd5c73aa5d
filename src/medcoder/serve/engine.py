"""Look-ups: the normaliser in a thread of its own, where requests and jobs take turns.

What callers ask for while others are looked up goes together next. Nobody waits for company: a
request that finds nothing under way goes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np  # noqa: F401  # one_thread sees only libraries that are loaded
from threadpoolctl import ThreadpoolController

from medcoder.mapping.lookup import IndexMapper
from medcoder.normalize import Normalizer
from medcoder.serve.error_replies import too_many
from medcoder.types import Answer

T = TypeVar("T")
O = TypeVar("O", bound=Hashable)  # noqa: E741
R = TypeVar("R")
_TURN = 32  # strings of a job at a time: what a request waits for at most


class Engine:
    """Runs what searches and encodes, one call at a time."""

    def __init__(self, normalizer: Normalizer) -> None:
        self.normalizer = normalizer
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="medcoder-engine")
        self._undo: Callable[[], None] = _nothing

    def prepare(self) -> None:
        """Do what otherwise the first request would wait for; one thread for matrices."""
        self._undo = self.call(one_thread)
        self.call(lambda: self.normalizer.encoder)

    async def run(self, function: Callable[[], T]) -> T:
        """From a coroutine."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    def call(self, function: Callable[[], T]) -> T:
        """From another thread."""
        return self._pool.submit(function).result()

    def close(self) -> None:
        """Finish what was begun."""
        self._pool.submit(self._undo)
        self._pool.shutdown()


class EngineMapper(IndexMapper):
    """What maps tables: a few strings at a time, so that requests get their turn."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.normalizer)
        self._engine = engine

    def normalize_many(
        self,
        texts: Sequence[str],
        *,
        top: int,
        types: Collection[str] | None,
        vocabularies: Collection[str] | None,
        languages: Collection[str] | None,
    ) -> Iterator[Answer]:
        options: dict[str, Any] = {
            "top": top, "types": types, "vocabularies": vocabularies, "languages": languages,
        }  # fmt: skip
        ask = super().normalize_many
        self._engine.call(lambda: ask([], **options))  # names that are unknown are so at once

        def answers() -> Iterator[Answer]:
            for first in range(0, len(texts), _TURN):
                some = texts[first : first + _TURN]
                yield from self._engine.call(partial(_listed, ask, some, options))

        return answers()


def _nothing() -> None:
    """There is nothing to undo."""


def _listed(ask: Any, texts: Sequence[str], options: dict[str, Any]) -> list[Answer]:
    return list(ask(texts, **options))


def one_thread() -> Callable[[], None]:
    """Have products of matrices done by one thread each; gives what undoes it.

    The products of a look-up are small. Threads inside them gain nothing on an idle machine, and
    on a busy one they wait for each other: at 16 strings, three times as long. Both calls are for
    the same thread: while it lives, others cannot change it.
    """
    libraries = ThreadpoolController()
    wanted = [
        library["filepath"]
        for library in libraries.info()
        # What shares OpenMP with faiss, which searches for many strings at a time, is left to it.
        if library["user_api"] == "blas" and library.get("threading_layer") != "openmp"
    ]
    chosen = libraries.select(filepath=wanted)
    undo: Callable[[], None] = chosen.limit(limits=1).restore_original_limits
    return undo


class _Request(NamedTuple, Generic[O, R]):
    texts: Sequence[str]
    options: O
    answer: asyncio.Future[list[R]]


class Batcher(Generic[O, R]):
    """Collects strings, and has those with the same options looked up in one call.

    look_up: gives an answer for each of some distinct strings, with the options
    together: if not, every request goes alone
    batch: strings that go together; a larger request goes as it is
    queue: strings that may wait; beyond, a request is refused
    count: is given the number of requests and of strings of each call
    """

    def __init__(
        self,
        look_up: Callable[[list[str], O], Awaitable[list[R]]],
        *,
        together: bool = True,
        batch: int,
        queue: int,
        count: Callable[[int, int], None] = lambda requests, strings: None,
    ) -> None:
        self._look_up, self._together = look_up, together
        self._batch, self._queue, self._count = batch, queue, count
        self._waiting: deque[_Request[O, R]] = deque()
        self._news = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self.strings = 0  # that wait or are looked up now

    async def ask(self, texts: Sequence[str], options: O) -> list[R]:
        """The answers for some strings, in their order."""
        # One request is always taken, however large: nothing else could be done with it.
        if self.strings and self.strings + len(texts) > self._queue:
            raise too_many("queue_full", "too many strings are waiting. Try again in a moment")
        request = _Request[O, R](texts, options, asyncio.get_running_loop().create_future())
        self.strings += len(texts)
        self._waiting.append(request)
        self._news.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            return await request.answer
        finally:
            self.strings -= len(texts)

    async def close(self) -> None:
        """Answer what is waiting, then stop."""
        while self.strings:
            await asyncio.sleep(0.005)
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            groups: dict[O, list[_Request[O, R]]] = {}
            for request in self._next():
                groups.setdefault(request.options, []).append(request)
            for options, requests in groups.items():
                await self._answer(requests, options)

    def _next(self) -> list[_Request[O, R]]:
        """The next requests, those left out whose caller is gone."""
        taken: list[_Request[O, R]] = []
        strings = 0
        while self._waiting:
            following = len(self._waiting[0].texts)
            alone = not self._together or strings + following > self._batch
            if taken and alone:
                break
            request = self._waiting.popleft()
            if not request.answer.done():
                taken.append(request)
                strings += following
        if not self._waiting:
            self._news.clear()
        return taken

    async def _answer(self, requests: list[_Request[O, R]], options: O) -> None:
        distinct = list(dict.fromkeys(text for request in requests for text in request.texts))
        try:
            answers = dict(zip(distinct, await self._look_up(distinct, options), strict=True))
        except Exception as error:
            if len(requests) > 1:  # one of them may be to blame, and the others not
                for request in requests:
                    await self._answer([request], options)
            elif not requests[0].answer.done():
                requests[0].answer.set_exception(error)
            return
        self._count(len(requests), len(distinct))
        for request in requests:
            if not request.answer.done():
                request.answer.set_result([answers[text] for text in request.texts])
