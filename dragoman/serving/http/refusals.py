"""Errors that clients receive, as JSON with an HTTP status, and the log for those that only the operator may see.

All of `serving` raises `Refused`, and `http/endpoint.py` makes the answer. The usual statuses are 400 for a mistake in
the request, 403 for a wrong key, 413 for too much text, 429 for too much from one client, and 503 for too much from all
clients.
"""

import logging
import math
import time

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
