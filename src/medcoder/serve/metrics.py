"""Counts and times for Prometheus: by route, method and status, and by nothing that was sent."""

from __future__ import annotations

import bisect
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Observations by their size."""

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._edges, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        total = 0
        for edge, count in zip((*self._edges, float("inf")), self._counts, strict=True):
            total += count
            shown = "+Inf" if edge == float("inf") else f"{edge:g}"
            yield _line(f"{name}_bucket", (*labels, ("le", shown)), total)
        yield _line(f"{name}_sum", labels, self._sum)
        yield _line(f"{name}_count", labels, total)


class Metrics:
    """All that is counted; safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[Labels] = Counter()
        self._seconds: dict[Labels, Histogram] = {}
        self._calls: dict[str, tuple[Histogram, Histogram]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern, never the address."""
        labels = (("route", route), ("method", method))
        with self._lock:
            self._requests[(*labels, ("status", str(status)))] += 1
            self._seconds.setdefault(labels, Histogram(SECONDS)).observe(seconds)

    def call(self, what: str, requests: int, strings: int) -> None:
        """Count a call of the normaliser or the encoder for some requests."""
        with self._lock:
            sizes = self._calls.setdefault(what, (Histogram(SIZES), Histogram(SIZES)))
            sizes[0].observe(requests)
            sizes[1].observe(strings)

    def text(self, gauges: dict[str, float]) -> str:
        """In the text format of Prometheus, with what is so just now."""
        with self._lock:
            return "\n".join([*self._lines(), *_gauges(gauges), ""])

    def _lines(self) -> Iterator[str]:
        yield "# TYPE medcoder_requests_total counter"
        for labels, count in sorted(self._requests.items()):
            yield _line("medcoder_requests_total", labels, count)
        yield "# TYPE medcoder_request_seconds histogram"
        for labels, found in sorted(self._seconds.items()):
            yield from found.lines("medcoder_request_seconds", labels)
        for place, name in enumerate(("medcoder_batch_requests", "medcoder_batch_strings")):
            yield f"# TYPE {name} histogram"
            for what, sizes in sorted(self._calls.items()):
                yield from sizes[place].lines(name, (("call", what),))


def _gauges(values: dict[str, float]) -> Iterator[str]:
    for name, value in values.items():
        yield f"# TYPE {name} gauge"
        yield _line(name, (), value)


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{text}"' for key, text in labels)
    return f"{name}{{{shown}}} {value:g}" if shown else f"{name} {value:g}"
