"""Prometheus metrics of the service. They never contain a text, an address or a key, only the names of keys.

``GET /metrics`` exposes them. `Middleware` counts requests and answers, the batcher reports batches and waiting times,
and `Service` adds its models. Each server has its own registry, so that tests can make several in one process.
Counters get the suffix ``_total`` in the output, as Prometheus' client library does.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

# The scope of the request that the current task answers. The check of its key adds the key's name to it.
_current: ContextVar[Mapping[str, Any]] = ContextVar("request")

# Upper bounds of histogram buckets: seconds up to the deadline of a request, and sentences up to twice a full batch.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters and histograms of one server. DeepL's ``/v2/usage`` reports `characters`."""

    def __init__(self) -> None:
        self.registry, self.characters = CollectorRegistry(), 0
        ProcessCollector(registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        self.requests = counter("dragoman_requests", "Answered requests", ["route", "code"])
        self.seconds = histogram("dragoman_request_seconds", "Seconds from request to answer", ["route"])
        self.in_flight = gauge("dragoman_requests_in_flight", "Requests in progress")
        self.refused = counter("dragoman_refused", "Requests refused because of load (429, 503)", ["code"])
        self.queue = histogram("dragoman_queue_seconds", "Seconds from request to first batch")
        self.batch_sentences = histogram("dragoman_batch_sentences", "Sentences per batch", buckets=_SIZES)
        self.batch_seconds = histogram("dragoman_batch_seconds", "Seconds per batch")
        self.tokens = counter("dragoman_source_tokens", "Translated source tokens (estimated)")
        self.disconnects = counter("dragoman_clients_gone", "Requests whose client disconnected before the answer")
        self.waiting = gauge("dragoman_requests_waiting", "Requests queued or being translated")
        self.key_requests = counter("dragoman_key_requests", "Answered requests with this API key", ["key"])
        self.key_characters = counter("dragoman_key_characters", "Source characters with this API key", ["key"])
        self.models = Info("dragoman_model", "A served model", ["pair"], registry=self.registry)

    def start_request(self, scope: Mapping[str, Any]) -> None:
        """Record that the current task started to answer a request."""
        _current.set(scope)
        self.in_flight.inc()

    def end_request(self, scope: Mapping[str, Any], route: str, status: int, seconds: float) -> None:
        """Record the end of a request. `status` is 0 if it was not answered."""
        self.in_flight.dec()
        if not status:
            return
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        if status in (429, 503):
            self.refused.labels(str(status)).inc()
        if key := scope.get("dragoman.key"):
            self.key_requests.labels(key).inc()

    def count_characters(self, count: int) -> None:
        """Record source characters of the current request, in total and for its key."""
        self.characters += count
        if key := _current.get({}).get("dragoman.key"):
            self.key_characters.labels(key).inc(count)

    def expose(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
