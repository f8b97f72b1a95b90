"""What the service counts, for Prometheus: never a text, an address or a key."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters and histograms of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("dragoman_requests", "Requests answered", ["route", "code"], registry=registry)
        self.seconds = Histogram(
            "dragoman_request_seconds", "From a request to its answer", ["route"], buckets=_SECONDS, registry=registry
        )
        self.in_flight = Gauge("dragoman_requests_in_flight", "Requests being answered", registry=registry)
        self.refused = Counter("dragoman_refused", "Requests refused because of load", ["code"], registry=registry)
        self.queue = Histogram(
            "dragoman_queue_seconds", "From a request to its first batch", buckets=_SECONDS, registry=registry
        )
        self.batch_sentences = Histogram(
            "dragoman_batch_sentences", "Sentences of a batch", buckets=_SIZES, registry=registry
        )
        self.batch_seconds = Histogram("dragoman_batch_seconds", "Of a batch", buckets=_SECONDS, registry=registry)
        self.tokens = Counter("dragoman_source_tokens", "Source tokens translated (estimated)", registry=registry)
        self.disconnects = Counter(
            "dragoman_clients_gone", "Requests whose client left before the answer", registry=registry
        )
        self.waiting = Gauge("dragoman_requests_waiting", "Requests not fully translated", registry=registry)
        self.models = Info("dragoman_model", "A served model", ["pair"], registry=registry)

    def add_model(self, pair: str, fingerprint: str) -> None:
        """Announce a served model: its language pair and its fingerprint."""
        self.models.labels(pair).info({"fingerprint": fingerprint})

    def observe_batch(self, sentences: int, cost: int, seconds: float) -> None:
        """A batch is done."""
        self.batch_sentences.observe(sentences)
        self.batch_seconds.observe(seconds)
        self.tokens.inc(cost)

    def observe_wait(self, seconds: float) -> None:
        """A request's first sentence is translated now."""
        self.queue.observe(seconds)

    def count_answer(self, route: str, status: int, started: float) -> None:
        """A request is answered. `started` is in the time of `time.monotonic`."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(time.monotonic() - started)
        if status in (429, 503):
            self.refused.labels(str(status)).inc()

    def expose(self) -> bytes:
        """All metrics in the format that Prometheus reads."""
        return generate_latest(self.registry)
