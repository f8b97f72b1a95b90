"""Limits of the service: sizes, time limits and queue lengths."""

from dataclasses import dataclass

from dragoman.config.fields import describe
from dragoman.config.settings import setting


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Limits of a running service. The flags of ``dragoman serve`` have these names and defaults."""

    lanes: int = setting(
        0, "batches translated in parallel, one thread each; 0: one per processor", minimum=0, maximum=256
    )
    batch_tokens: int = setting(4096, "most source tokens in a batch, estimated", minimum=1)
    batch_sentences: int = setting(64, "most sentences in a batch", minimum=1)
    batch_wait_ms: float = setting(
        5.0, "milliseconds to wait for more sentences between batches under load", minimum=0.0, maximum=1000.0
    )
    max_requests: int = setting(256, "most requests queued or in progress; more are refused (503)", minimum=1)
    max_wait_seconds: float = setting(
        1.5, "longest queueing time of a request in seconds; longer waits are refused (503)", above=0.0
    )
    deadline_seconds: float = setting(
        9.0, "longest time for a request in seconds, then 503; many clients give up after 10", above=0.0
    )
    max_chars: int = setting(5000, "most characters in a text", minimum=1)
    max_texts: int = setting(1000, "most texts in a request", minimum=1)
    max_alternatives: int = setting(5, "most alternative translations of a text", minimum=0, maximum=100)
    max_body_bytes: int = setting(1 << 20, "most bytes in a request", minimum=1)
    max_file_bytes: int = setting(10 << 20, "most bytes in a file to translate", minimum=1)
    max_files: int = setting(100, "most files kept for download, for half an hour each", minimum=1)
    body_seconds: float = setting(10.0, "longest time for a request to arrive in seconds, then 408", above=0.0)
    requests_per_minute: int = setting(
        0, "most requests per minute of one API key, or of one address without keys; 0: no limit", minimum=0
    )
    drain_delay_seconds: float = setting(
        1.0, "seconds between SIGTERM, when /readyz turns 503, and the end of new connections", minimum=0.0
    )
    drain_seconds: float = setting(30.0, "seconds for requests in progress to finish after SIGTERM", minimum=0.0)


@dataclass(frozen=True, slots=True)
class _Tables:
    serve: ServeSettings = ServeSettings()


SERVE_SETTINGS = {setting.name: setting for setting in describe(_Tables).values()}
"""Every setting of the service by name, with its range and help text."""
