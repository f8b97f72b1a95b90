"""Limits of the service: sizes, time limits and queue lengths.

A server that anyone can reach must refuse work that it cannot finish in time, and must not run out of memory. Time
limits are made for clients that wait. A request is refused at once if its estimated wait is longer than
`max_wait_seconds`, and after `deadline_seconds` in any case. Files have no deadline.
"""

from dataclasses import dataclass

from dragoman.config.fields import describe
from dragoman.config.settings import setting


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Limits of a running service. The flags of ``dragoman serve`` have these names and defaults."""

    lanes: int = setting(0, "Batches in parallel, one thread each; 0: one per processor", minimum=0, maximum=256)
    batch_tokens: int = setting(4096, "Maximum number of source tokens in a batch, estimated", minimum=1)
    batch_sentences: int = setting(64, "Maximum number of sentences in a batch", minimum=1)
    batch_wait_ms: float = setting(5.0, "Milliseconds to wait for sentences under load", minimum=0.0, maximum=1000.0)
    max_connections: int = setting(2500, "Maximum number of open connections; an address gets half of them", minimum=2)
    max_requests: int = setting(256, "Maximum number of open requests; more are refused (503)", minimum=1)
    max_wait_seconds: float = setting(1.5, "Seconds a request may be queued; longer waits are refused (503)", above=0.0)
    # Many clients give up after 10 seconds.
    deadline_seconds: float = setting(9.0, "Seconds until an unfinished request is refused (503)", above=0.0)
    max_chars: int = setting(5000, "Maximum number of characters in a text", minimum=1)
    max_texts: int = setting(1000, "Maximum number of texts in a request", minimum=1)
    max_alternatives: int = setting(5, "Maximum number of alternative translations of a text", minimum=0, maximum=100)
    max_body_bytes: int = setting(1 << 20, "Maximum number of bytes in a request", minimum=1)
    max_file_bytes: int = setting(10 << 20, "Maximum number of bytes in a file to translate", minimum=1)
    max_files: int = setting(100, "Maximum number of files kept for download, for half an hour each", minimum=1)
    body_seconds: float = setting(10.0, "Seconds for a request to arrive; a slower one is cut off (408)", above=0.0)
    requests_per_minute: int = setting(0, "Requests per minute and key, or address if no keys; 0: no limit", minimum=0)
    drain_delay_seconds: float = setting(1.0, "Seconds to accept connections after SIGTERM (/readyz: 503)", minimum=0.0)
    drain_seconds: float = setting(30.0, "Seconds for requests in progress to finish after SIGTERM", minimum=0.0)


class _Tables:
    serve: ServeSettings


SERVE_SETTINGS = {setting.name: setting for setting in describe(_Tables).values()}
"""Every setting of the service by name, with its range and help text."""
