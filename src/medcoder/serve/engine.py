"""The normaliser in a thread of its own: requests and jobs take turns there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from medcoder.mapping.lookup import IndexMapper
from medcoder.normalize import Normalizer
from medcoder.serve.threads import one_thread
from medcoder.types import Answer

T = TypeVar("T")
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
