"""How fast work is done, measured while it is done, and how long new work would have to wait for what is before it."""

import time
from dataclasses import dataclass

_FULL_SHARE = 0.5
_NEW_SHARE = 0.2


def cost_of(text: str) -> int:
    """About the tokens of a sentence: one for four bytes, and some for what every sentence takes."""
    return 4 + len(text.encode("utf-8", "surrogatepass")) // 4


@dataclass(slots=True)
class _RunningBatch:
    """A batch in translation."""

    cost: int
    begun: float


class Throughput:
    """Cost a second of one lane.

    A batch that is not nearly full says only what can be done at least: its time is mostly that of its longest
    sentence. So such a batch can raise the rate, and only full ones lower it.
    """

    def __init__(self, lanes: int, full_cost: int) -> None:
        self._lanes, self._full_cost = lanes, full_cost
        self.rate = 0.0
        self.running: dict[int, _RunningBatch] = {}

    def begin(self, lane: int, cost: int) -> None:
        """A batch begins."""
        self.running[lane] = _RunningBatch(cost, time.monotonic())

    def end(self, lane: int) -> tuple[int, float]:
        """It is done; its cost and seconds."""
        batch = self.running.pop(lane)
        seconds = max(time.monotonic() - batch.begun, 1e-6)
        self.learn(batch.cost, seconds)
        return batch.cost, seconds

    def learn(self, cost: int, seconds: float) -> None:
        """A batch of this cost took so long."""
        seen = cost / seconds
        if cost >= _FULL_SHARE * self._full_cost and self.rate:
            self.rate += _NEW_SHARE * (seen - self.rate)
        else:
            self.rate = max(self.rate, seen)

    def seconds(self, cost: float) -> float:
        """That much takes so long on all lanes."""
        return cost / (self.rate * self._lanes) if self.rate else 0.0

    def wait(self, before: float) -> float:
        """How long work waits for so much that comes before it, and for what runs."""
        return self.seconds(before) + min(self._left(), default=0.0)

    def overdue(self) -> float:
        """Seconds by which even the most punctual lane is late; 0 where one is free."""
        if len(self.running) < self._lanes or not self.rate:
            return 0.0
        now = time.monotonic()
        return min(max(0.0, now - one.begun - 4 * one.cost / self.rate) for one in self.running.values())

    def _left(self) -> list[float]:
        now = time.monotonic()
        if len(self.running) < self._lanes or not self.rate:
            return []
        return [max(0.0, one.cost / self.rate - (now - one.begun)) for one in self.running.values()]
