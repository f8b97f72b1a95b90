"""The measured speed of translation, and estimates of queueing times from it.

The batcher reports the start and end of each batch, and uses the estimates to refuse requests that would be late. The
estimate is simple: a lane translates `rate` units of cost per second, and all lanes share the queue evenly. The warm-up
in `Service.start` makes the first measurement. Before it, all estimates are 0.
"""

import time

# A batch with at least this share of the full cost counts as full.
_FULL_SHARE = 0.5
# The weight of a new measurement in the moving average.
_NEW_SHARE = 0.2


def cost_of(text: str) -> int:
    """The estimated tokens of a sentence: one per four bytes of UTF-8, plus four.

    An exact number would need the tokenizer, in the event loop and for each text.
    """
    return 4 + len(text.encode("utf-8", "surrogatepass")) // 4


class Throughput:
    """Estimates the rate of one lane: cost per second.

    The time of a batch that is far from full is mostly that of its longest sentence, so it gives only a lower bound of
    the rate. Such a batch can raise the estimate; only a full batch can lower it.

    Parameters
    ----------
    lanes
        The number of batches translated in parallel.
    full_cost
        The cost of a full batch.
    """

    def __init__(self, lanes: int, full_cost: int) -> None:
        self._lanes, self._full_cost = lanes, full_cost
        self.rate = 0.0
        self._running: dict[int, tuple[int, float]] = {}  # cost and start by lane

    def begin(self, lane: int, cost: int) -> None:
        """Record the start of a batch."""
        self._running[lane] = cost, time.monotonic()

    def end(self, lane: int) -> tuple[int, float]:
        """Record the end of a batch. Returns its cost and its duration in seconds."""
        cost, started = self._running.pop(lane)
        seconds = max(time.monotonic() - started, 1e-6)
        self.learn(cost, seconds)
        return cost, seconds

    def learn(self, cost: int, seconds: float) -> None:
        """Update the estimate with a batch of this cost and duration."""
        seen = cost / seconds
        if cost >= _FULL_SHARE * self._full_cost and self.rate:
            self.rate += _NEW_SHARE * (seen - self.rate)
        else:
            self.rate = max(self.rate, seen)

    def seconds(self, cost: float) -> float:
        """Estimated seconds for this cost on all lanes together. 0 before the first measurement."""
        return cost / (self.rate * self._lanes) if self.rate else 0.0

    def wait(self, before: float) -> float:
        """Estimated seconds until new work starts, with this cost queued before it."""
        return self.seconds(before) + max(0.0, -max(self._overtime(1), default=0.0))

    def overdue(self) -> float:
        """Seconds that the least late lane exceeds four times its estimate. 0 if a lane is free."""
        return max(0.0, min(self._overtime(4), default=0.0))

    def _overtime(self, factor: int) -> list[float]:
        """Seconds that each running batch exceeds `factor` times its estimate. Empty if a lane is free."""
        now = time.monotonic()
        if len(self._running) < self._lanes or not self.rate:
            return []
        return [now - started - factor * cost / self.rate for cost, started in self._running.values()]
