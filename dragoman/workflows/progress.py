"""Progress reports of a workflow to its caller.

Workflows print nothing themselves. They call a `Progress`: `TerminalProgress` prints on standard error,
`NotebookProgress` (`workflows/api/notebook.py`) updates one display, and `QUIET` ignores every report.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dragoman.counting import counting
from dragoman.messages import say
from dragoman.training.run.log import LogDisplay, LogLines

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_SILENCE_SECONDS = 20.0


class Progress:
    """Receiver of a workflow's reports. This class ignores them; override the methods that you need.

    `log` shows the log of training. None discards it.
    """

    log: LogDisplay | None = None

    def note(self, text: str) -> None:
        """Receive a sentence for the user, such as a warning or the path of a file."""

    def stage(self, name: str, done: int, total: int | None = None, unit: str = "pairs") -> None:
        """Receive the name of the current stage, and how many items of it are done, of `total` if that is known."""

    def end_stage(self) -> None:
        """Receive the end of the current stage."""

    @contextmanager
    def ending_stages(self) -> Iterator[None]:
        """End the last stage with the block, also after an error: a live bar would be drawn over its message."""
        try:
            yield
        finally:
            self.end_stage()

    def result(self, part: object) -> None:
        """Receive a part of the result as soon as it is known. Each workflow documents the records it reports."""

    @contextmanager
    def counting(self, name: str, total: int | None = None, unit: str = "texts") -> Iterator[None]:
        """Report the items that are finished inside the block, such as translated texts, as a stage."""
        with self.ending_stages(), counting(name, self.stage, total, unit):
            yield


QUIET = Progress()


class TerminalProgress(Progress):
    """Prints notes and stages on stderr. A stage is a bar on a terminal, or a line every 20 seconds elsewhere."""

    def __init__(self) -> None:
        self.log = LogLines(sys.stderr)
        self._stage, self._last_time = "", 0.0
        self._live = sys.stderr.isatty()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def note(self, text: str) -> None:
        """Print a note."""
        self.end_stage()
        say(text)

    def stage(self, name: str, done: int, total: int | None = None, unit: str = "pairs") -> None:
        """Print the name of a new stage, or how much of it is done."""
        if self._live:
            self._show_bar(name, done, total, unit)
        elif name != self._stage:
            say(name)
            self._last_time = time.monotonic()
        elif time.monotonic() - self._last_time > _SILENCE_SECONDS:
            say(f"{name}: {count_text(done, total, unit)}")
            self._last_time = time.monotonic()
        self._stage = name

    def end_stage(self) -> None:
        """Leave the bar as it is, and print below it from now on."""
        self._stage = ""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def result(self, part: object) -> None:
        """End the stage that the result comes from."""
        self.end_stage()

    def _show_bar(self, name: str, done: int, total: int | None, unit: str) -> None:
        if self._bar is None or self._task is None or name != self._stage:
            self.end_stage()
            self._bar = _new_bar()
            self._task = self._bar.add_task(name, total=total, count="")
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total, count=count_text(done, total, unit))


def _new_bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = BarColumn(complete_style="blue", finished_style="blue", pulse_style="blue")
    columns = (TextColumn("{task.description}"), bar, TextColumn("{task.fields[count]}"), TimeRemainingColumn())
    return Bar(*columns, console=Console(stderr=True))


def count_text(done: int, total: int | None, unit: str) -> str:
    """How much of a stage is done, such as "1,200 of 3,000 texts", or "" for a stage without counts."""
    if not done and total is None:
        return ""
    return f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
