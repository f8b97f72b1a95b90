"""The measured speed of translation, and estimates of queueing times from it.

The batcher reports the start and end of each batch, and uses the estimates to refuse requests that would be late. The
estimate is simple: a lane translates `rate` units of cost per second, and all lanes share the queue evenly. The warm-up
in `Service.start` makes the first measurement. Before it, all estimates are 0.
"""

import time
from dataclasses import dataclass

# A batch with at least this share of the full cost counts as full.
_FULL_SHARE = 0.5
# The weight of a new measurement in the moving average.
_NEW_SHARE = 0.2


def cost_of(text: str) -> int:
    """The estimated tokens of a sentence: one per four bytes of UTF-8, plus four.

    An exact number would need the tokenizer, in the event loop and for each text.
    """
    return 4 + len(text.encode("utf-8", "surrogatepass")) // 4


@dataclass(slots=True)
class _RunningBatch:
    """A batch in progress."""

    cost: int
    started: float


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
        self.running: dict[int, _RunningBatch] = {}

    def begin(self, lane: int, cost: int) -> None:
        """Record the start of a batch."""
        self.running[lane] = _RunningBatch(cost, time.monotonic())

    def end(self, lane: int) -> tuple[int, float]:
        """Record the end of a batch. Returns its cost and its duration in seconds."""
        batch = self.running.pop(lane)
        seconds = max(time.monotonic() - batch.started, 1e-6)
        self.learn(batch.cost, seconds)
        return batch.cost, seconds

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
        return self.seconds(before) + min(self._left(), default=0.0)

    def overdue(self) -> float:
        """Seconds that the least late lane exceeds four times its estimate. 0 if a lane is free."""
        if len(self.running) < self._lanes or not self.rate:
            return 0.0
        now = time.monotonic()
        return min(max(0.0, now - one.started - 4 * one.cost / self.rate) for one in self.running.values())

    def _left(self) -> list[float]:
        """Estimated seconds left for each running batch. Empty if a lane is free."""
        now = time.monotonic()
        if len(self.running) < self._lanes or not self.rate:
            return []
        return [max(0.0, one.cost / self.rate - (now - one.started)) for one in self.running.values()]
