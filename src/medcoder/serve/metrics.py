"""Counts and times for Prometheus: by route, method and status, and by nothing that was sent."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = tuple(float(1 << power) for power in range(11))  # 1 to 1,024


class _Registry(CollectorRegistry):
    """Leaves out when each series began, which the library can only do for all of a process."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric


class Metrics:
    """All that one application counts, in a registry of its own; any thread may call it."""

    def __init__(self) -> None:
        self._registry = _Registry()
        self._requests = Counter(
            "medcoder_requests", "Requests.", ["route", "method", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "medcoder_request_seconds", "Seconds that requests took.", ["route", "method"],
            buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._sizes = [
            Histogram(name, text, ["call"], buckets=_SIZES, registry=self._registry)
            for name, text in (
                ("medcoder_batch_requests", "Requests that were looked up in one call."),
                ("medcoder_batch_strings", "Strings that were looked up in one call."),
            )
        ]
        self._gauges: dict[str, Gauge] = {}

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern, never the address."""
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route, method).observe(seconds)

    def count_call(self, call: str, requests: int, strings: int) -> None:
        """Count a call of the normaliser or the encoder for some requests."""
        for histogram, size in zip(self._sizes, (requests, strings), strict=True):
            histogram.labels(call).observe(size)

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """In the text format of Prometheus.

        gauges: what is so just now, with words for it, by name
        """
        for name, (words, value) in gauges.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(name, words, registry=self._registry)
            self._gauges[name].set(value)
        return generate_latest(self._registry).decode()
