"""Look-ups: the normaliser in a thread of its own, where requests and jobs take turns.

What callers ask for while others are looked up goes together next. Nobody waits for company: a
request that finds nothing under way goes at once. Large requests and jobs go a slice at a time, so
that somebody who types one string does not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
_TURN = 16  # strings of a job at a time: what a request waits for at most
_FEW = 8  # strings of a request that goes before larger ones
_SLICE = 16  # strings of a large request that go with small ones
_LARGE = 32  # strings of all large ones that do
_ALONE = 64  # where no small ones wait: more at a time cost less, but new ones wait longer


class Engine:
    """Runs what searches and encodes, one call at a time."""

    def __init__(self, normalizer: Normalizer) -> None:
        self.normalizer = normalizer
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="medcoder-engine")
        self._undo: Callable[[], None] = _nothing
        self._background = threading.Lock()

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

    def call_behind(self, function: Callable[[], T]) -> T:
        """The same for jobs, however many there are: between two calls of others, one of theirs."""
        with self._background:
            return self.call(function)

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
        targets: str,
        split: bool,
    ) -> Iterator[Answer]:
        options: dict[str, Any] = {
            "top": top, "types": types, "vocabularies": vocabularies, "languages": languages,
            "targets": targets, "split": split,
        }  # fmt: skip
        ask = super().normalize_many
        self._engine.call(lambda: ask([], **options))  # names that are unknown are so at once

        def answers() -> Iterator[Answer]:
            for first in range(0, len(texts), _TURN):
                some = texts[first : first + _TURN]
                yield from self._engine.call_behind(partial(_listed, ask, some, options))

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


@dataclass(eq=False)
class _Request(Generic[O, R]):
    texts: Sequence[str]
    options: O
    answer: asyncio.Future[list[R]]
    begun: int = 0  # strings that were taken
    found: list[R] = field(default_factory=list)

    def take(self, most: int) -> _Part[O, R]:
        part = _Part(self, self.texts[self.begun : self.begun + most])
        self.begun += len(part.texts)
        return part

    @property
    def left(self) -> int:
        return len(self.texts) - self.begun


class _Part(NamedTuple, Generic[O, R]):
    """Strings of a request that are looked up in one call."""

    request: _Request[O, R]
    texts: Sequence[str]


class Batcher(Generic[O, R]):
    """Collects strings, and has those with the same options looked up in one call.

    Small requests go first, in their order; with them go slices of large ones, in turn.

    look_up: gives an answer for each of some distinct strings, with the options
    together: if not, every request goes alone, and whole
    batch: strings of small requests that go together
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
        self._small: deque[_Request[O, R]] = deque()
        self._large: deque[_Request[O, R]] = deque()
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
        small = len(texts) <= _FEW or not self._together
        (self._small if small else self._large).append(request)
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
            groups: dict[O, list[_Part[O, R]]] = {}
            for part in self._next():
                groups.setdefault(part.request.options, []).append(part)
            for options, parts in groups.items():
                await self._answer(parts, options)

    def _next(self) -> list[_Part[O, R]]:
        """What is looked up next, without requests whose caller is gone."""
        taken: list[_Part[O, R]] = []
        strings = 0
        while self._small and (not taken or strings + self._small[0].left <= self._batch):
            request = self._small.popleft()
            if request.answer.done():
                continue
            strings += request.left
            taken.append(request.take(request.left))
            if not self._together:
                break
        room, most = (_LARGE, _SLICE) if taken else (_ALONE, _ALONE)
        for _ in range(len(self._large)):
            if room == 0:
                break
            request = self._large.popleft()
            if request.answer.done():
                continue
            taken.append(request.take(min(room, most)))
            room -= len(taken[-1].texts)
            if request.left:
                self._large.append(request)
        if not self._small and not self._large:
            self._news.clear()
        return taken

    async def _answer(self, parts: list[_Part[O, R]], options: O) -> None:
        distinct = list(dict.fromkeys(text for part in parts for text in part.texts))
        try:
            answers = dict(zip(distinct, await self._look_up(distinct, options), strict=True))
        except Exception as error:
            if len(parts) > 1:  # one of them may be to blame, and the others not
                for part in parts:
                    await self._answer([part], options)
            elif not parts[0].request.answer.done():
                parts[0].request.answer.set_exception(error)
            return
        self._count(len(parts), len(distinct))
        for request, texts in parts:
            request.found.extend(answers[text] for text in texts)
            if len(request.found) == len(request.texts) and not request.answer.done():
                request.answer.set_result(request.found)
