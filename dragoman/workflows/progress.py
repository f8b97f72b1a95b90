"""Progress reports of a workflow to its caller.

Workflows print nothing themselves. They call a `Progress`: `TerminalProgress` prints on standard error, and `QUIET`
ignores every report.
"""

import sys
import time
from typing import TextIO

from dragoman.messages import say

_SILENCE_SECONDS = 20.0


class Progress:
    """Receiver of a workflow's reports. This class ignores them; override the methods that you need.

    `log` receives the lines of training, as a terminal shows them. None discards them.
    """

    log: TextIO | None = None

    def note(self, text: str) -> None:
        """Receive a sentence for the user, such as a warning or the path of a file."""

    def stage(self, name: str, pairs: int) -> None:
        """Receive the name of the current stage of preparation, and how many sentence pairs of it are done."""

    def result(self, part: object) -> None:
        """Receive a part of the result as soon as it is known. Each workflow documents the records it reports."""


QUIET = Progress()


class TerminalProgress(Progress):
    """Prints notes and stages on stderr. Counts are live on a terminal, or a line every 20 seconds elsewhere."""

    def __init__(self) -> None:
        self.log = sys.stderr
        self._stage, self._last_time = "", 0.0
        self._live = sys.stderr.isatty()

    def note(self, text: str) -> None:
        """Print a note."""
        say(text)

    def stage(self, name: str, pairs: int) -> None:
        """Print the name of a new stage, or the number of pairs that are done."""
        if self._live:
            sys.stderr.write(f"\r\033[K{name}: {pairs:,} pairs" + ("" if name == self._stage else "\n"))
        elif name != self._stage:
            say(name)
            self._last_time = time.monotonic()
        elif time.monotonic() - self._last_time > _SILENCE_SECONDS:
            say(f"{name}: {pairs:,} pairs")
            self._last_time = time.monotonic()
        self._stage = name
