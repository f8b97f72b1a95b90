"""What a client can act on: every request that is not answered gets one of these, as JSON with its status."""

import math
import time

_A_SECOND, _AT_ONCE, _LONGEST_PAUSE = 150, 50, 3.0


class Refused(Exception):
    """The request is not answered; the text says why, in words for whoever sent it.

    `retry_seconds`: when it is worth another try. `closes`: the rest of the request will not be read.
    """

    def __init__(self, status: int, message: str, retry_seconds: float | None = None, closes: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.closes = status, message, closes
        self.retry_after = None if retry_seconds is None else max(1, math.ceil(retry_seconds))

    @property
    def headers(self) -> dict[str, str]:
        """Those that go with it."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return headers | ({"Connection": "close"} if self.closes else {})


class RefusalThrottle:
    """Slows down clients that ask again as soon as they are refused: refusing thousands would leave no time to work.

    So many a second are refused, and some at once; others hear it later, but soon enough to be heard at all.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def pause(self) -> float:
        """Seconds to wait before this refusal is sent."""
        now = time.monotonic()
        self._next = min(max(self._next + 1 / _A_SECOND, now - _AT_ONCE / _A_SECOND), now + _LONGEST_PAUSE)
        return max(0.0, self._next - now)


def server_busy(seconds: float) -> Refused:
    """There is more to do than can be done in time."""
    return Refused(503, "The server is busy. Try again later.", seconds)


def internal_error() -> Refused:
    """A mistake of ours; the log has more."""
    return Refused(500, "The server could not translate this text. Its log says why.")
