"""Measures the training throughput of a toolkit from its own log, without the first interval."""

import sys
from itertools import pairwise

from side_by_side.processes import Heard, run
from side_by_side.timing import training_arguments, training_result
from side_by_side.toolkits import add_arguments, print_toolkit_result, toolkit_of
from side_by_side.toolkits.toolkit import NEVER, Toolkit

LEAST_READINGS = 4


class Enough:
    """A function of log lines that returns True once the log has enough readings."""

    def __init__(self, toolkit: Toolkit, seconds: float) -> None:
        self._toolkit, self._seconds = toolkit, seconds
        self._first: float | None = None
        self._readings = 0

    def __call__(self, when: float, line: str) -> bool:
        if not self._toolkit.speed_line.search(line):
            return False
        self._first = when if self._first is None else self._first
        self._readings += 1
        return self._readings >= LEAST_READINGS and when - self._first >= self._seconds


def main() -> None:
    parser = training_arguments(__doc__)
    add_arguments(parser)
    given = parser.parse_args()
    toolkit = toolkit_of(given, "training")
    command = toolkit.train_command(given.size.dropped_steps, NEVER)
    log = toolkit.work / "train.log"
    heard = run(command, log, given.limit, Enough(toolkit, given.seconds))
    readings = speeds(toolkit, heard)
    if len(readings) < 2:
        sys.exit(f"{given.toolkit} ended with code {heard.code} and too few readings: see {log}")
    # A reading covers the time since the one before it.
    intervals = [(now[0] - before[0], now[1] * toolkit.tokens_per_unit()) for before, now in pairwise(readings)]
    seconds = sum(passed for passed, _ in intervals)
    tokens = sum(passed * speed for passed, speed in intervals)
    print_toolkit_result(toolkit, training_result(tokens, len(intervals) * given.size.dropped_steps, seconds))


def speeds(toolkit: Toolkit, heard: Heard) -> list[tuple[float, float]]:
    """Return the time and value of each logged speed."""
    found = ((when, toolkit.speed_line.search(line)) for when, line in heard.lines)
    return [(when, float(match["speed"])) for when, match in found if match]


if __name__ == "__main__":
    main()
