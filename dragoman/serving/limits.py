"""Limits of the service, and the refusal of requests beyond them.

A server that anyone can reach must refuse work that it cannot finish in time, and must not run out of memory. Time
limits are made for clients that wait. A request is refused at once if its estimated wait is longer than
`max_wait_seconds`, and after `deadline_seconds` in any case. Files have no deadline.

All of `serving` raises `Refused`, and `http/endpoint.py` makes the answer as JSON. The usual statuses are 400 for a
mistake in the request, 403 for a wrong key, 413 for too much text, 429 for too much from one client, and 503 for too
much from all clients. `LOG` is for errors that only the operator may see.
"""

import logging
import math
import time
from dataclasses import dataclass

from dragoman.config.fields import describe_table
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
    max_files: int = setting(100, "Maximum number of files kept for download, for at most half an hour each", minimum=1)
    body_seconds: float = setting(10.0, "Seconds for a request to arrive; a slower one is cut off (408)", above=0.0)
    requests_per_minute: int = setting(0, "Requests per minute and key, or address if no keys; 0: no limit", minimum=0)
    drain_delay_seconds: float = setting(1.0, "Seconds to accept connections after SIGTERM (/readyz: 503)", minimum=0.0)
    drain_seconds: float = setting(30.0, "Seconds for requests in progress to finish after SIGTERM", minimum=0.0)


SERVE_SETTINGS = {setting.name: setting for setting in describe_table("serve", ServeSettings)}
"""Every setting of the service by name, with its range and help text."""


LOG = logging.getLogger("dragoman.serving")
"""The log of the server."""
# Refusals per second and in a burst, and the longest delay of one in seconds.
_A_SECOND, _AT_ONCE, _LONGEST_PAUSE = 150, 50, 3.0


class Refused(Exception):
    """A refused request. The message is written for the client.

    Parameters
    ----------
    status
        The HTTP status.
    message
        What is wrong, and what the client can do.
    retry_seconds
        When the client should try again. Rounded up to whole seconds for the header.
    closes
        Whether the connection ends, because the rest of the request is not read.
    """

    def __init__(self, status: int, message: str, retry_seconds: float | None = None, closes: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.closes = status, message, closes
        self.retry_after = None if retry_seconds is None else max(1, math.ceil(retry_seconds))

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers of the answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return headers | ({"Connection": "close"} if self.closes else {})


def shutting_down() -> Refused:
    """The refusal of a server that stops."""
    return Refused(503, "The server is shutting down. Try again later.", 5)


class RefusalThrottle:
    """Slows down clients that retry at once after a refusal: thousands of refusals would leave no time for work.

    At most 150 refusals are sent per second, in bursts of up to 50. Others are delayed by up to 3 seconds.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def pause(self) -> float:
        """Seconds to wait before sending the next refusal."""
        now = time.monotonic()
        self._next = min(max(self._next + 1 / _A_SECOND, now - _AT_ONCE / _A_SECOND), now + _LONGEST_PAUSE)
        return max(0.0, self._next - now)


def server_busy(seconds: float) -> Refused:
    """The error for a server under too much load."""
    return Refused(503, "The server is busy. Try again later.", seconds)


def internal_error() -> Refused:
    """The error for a bug or a failing model. The traceback is in the log."""
    return Refused(500, "The server failed to translate this text. See the server's log.")
