"""Progress of a workflow, printed on standard error."""

import sys
import time

from dragoman.messages import say
from dragoman.workflows.progress import Progress

_SILENCE_SECONDS = 20.0


class TerminalProgress(Progress):
    """Prints notes and stages. The count of a stage is live on a terminal, and a line every 20 seconds elsewhere."""

    def __init__(self) -> None:
        self.log = sys.stderr
        self._stage, self._last_time = "", 0.0
        self._live = sys.stderr.isatty()

    def note(self, text: str) -> None:
        """Print a note."""
        say(text)

    def stage(self, name: str, pairs: int) -> None:
        """Print the name of a new stage, or the number of pairs that have passed it so far."""
        if self._live:
            sys.stderr.write(f"\r\033[K{name}: {pairs:,} pairs" + ("" if name == self._stage else "\n"))
        elif name != self._stage:
            say(name)
            self._last_time = time.monotonic()
        elif time.monotonic() - self._last_time > _SILENCE_SECONDS:
            say(f"{name}: {pairs:,} pairs")
            self._last_time = time.monotonic()
        self._stage = name
