"""Micro-batching: what callers ask for while others are looked up goes together next.

Nobody waits for company: a request that finds nothing under way goes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from medcoder.serve.refusals import busy

O = TypeVar("O", bound=Hashable)  # noqa: E741
R = TypeVar("R")


class _Asked(NamedTuple, Generic[O, R]):
    texts: Sequence[str]
    options: O
    answer: asyncio.Future[list[R]]


class Batcher(Generic[O, R]):
    """Collects strings, and has those with the same options looked up in one call.

    look_up: gives an answer for each of some distinct strings, with the options
    together: if not, every request goes alone
    batch: strings that go together; a larger request goes as it is
    queue: strings that may wait; beyond, a request is refused
    told: is given the number of requests and of strings of each call
    """

    def __init__(
        self,
        look_up: Callable[[list[str], O], Awaitable[list[R]]],
        *,
        together: bool = True,
        batch: int,
        queue: int,
        told: Callable[[int, int], None] = lambda requests, strings: None,
    ) -> None:
        self._look_up, self._together = look_up, together
        self._batch, self._queue, self._told = batch, queue, told
        self._waiting: deque[_Asked[O, R]] = deque()
        self._news = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self.strings = 0  # that wait or are looked up now

    async def ask(self, texts: Sequence[str], options: O) -> list[R]:
        """The answers for some strings, in their order."""
        # One request is always taken, however large: nothing else could be done with it.
        if self.strings and self.strings + len(texts) > self._queue:
            raise busy("queue_full", "too many requests are waiting. Try again in a moment")
        asked = _Asked[O, R](texts, options, asyncio.get_running_loop().create_future())
        self.strings += len(texts)
        self._waiting.append(asked)
        self._news.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        try:
            return await asked.answer
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
            groups: dict[O, list[_Asked[O, R]]] = {}
            for one in self._taken():
                groups.setdefault(one.options, []).append(one)
            for options, some in groups.items():
                await self._answer(some, options)

    def _taken(self) -> list[_Asked[O, R]]:
        """The next requests, those left out whose caller is gone."""
        taken: list[_Asked[O, R]] = []
        strings = 0
        while self._waiting:
            following = len(self._waiting[0].texts)
            alone = not self._together or strings + following > self._batch
            if taken and alone:
                break
            one = self._waiting.popleft()
            if not one.answer.done():
                taken.append(one)
                strings += following
        if not self._waiting:
            self._news.clear()
        return taken

    async def _answer(self, some: list[_Asked[O, R]], options: O) -> None:
        distinct = list(dict.fromkeys(text for one in some for text in one.texts))
        try:
            found = dict(zip(distinct, await self._look_up(distinct, options), strict=True))
        except Exception as error:
            if len(some) > 1:  # one of them may be to blame, and the others not
                for one in some:
                    await self._answer([one], options)
            elif not some[0].answer.done():
                some[0].answer.set_exception(error)
            return
        self._told(len(some), len(distinct))
        for one in some:
            if not one.answer.done():
                one.answer.set_result([found[text] for text in one.texts])
