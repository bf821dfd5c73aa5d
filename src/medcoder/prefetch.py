"""Read and work ahead in threads while the caller is busy with what came before."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Full, Queue
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def prefetch(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items in the same order; an error in the thread is raised here."""
    queue: Queue[tuple[bool, T | BaseException | None]] = Queue(depth)
    stop = threading.Event()

    def put(last: bool, item: T | BaseException | None) -> None:
        while not stop.is_set():
            try:
                queue.put((last, item), timeout=0.1)
            except Full:
                continue
            return

    def work() -> None:
        try:
            for item in items:
                put(False, item)
                if stop.is_set():
                    return
        except BaseException as error:
            put(True, error)
        else:
            put(True, None)

    thread = threading.Thread(target=work, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            last, item = queue.get()
            if last:
                if isinstance(item, BaseException):
                    raise item
                return
            yield item  # type: ignore[misc]
            del item
    finally:
        stop.set()
        thread.join()


def in_parallel(work: Callable[[T], R], items: Iterable[T], workers: int = 2) -> Iterator[R]:
    """`work` of each item, in order, with up to `workers` of them under way."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
