"""Progress reports of a workflow to its caller.

Workflows print nothing themselves. They call a `Progress`: `TerminalProgress` prints on standard error,
`NotebookProgress` (`workflows/api/notebook.py`) updates one display, and `QUIET` ignores every report.

Records that training reports to `Progress.result`: counts of pairs and scores.
"""

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.counting import counting
from dragoman.display import say
from dragoman.records import Score
from dragoman.training.run.log import LogDisplay, LogLines, duration

if TYPE_CHECKING:
    from dragoman.data.prepare import PreparedCorpus
    from dragoman.text.corpus.cleaning import CleaningReport

_SILENCE_SECONDS, _REDRAW_SECONDS = 20.0, 0.1
_BAR_CHARS = 30


class Progress:
    """Receiver of a workflow's reports. This class ignores them; override the methods that you need.

    `log` shows the log of training. None discards it. `named` replaces the names of temporary files in notes.
    """

    log: LogDisplay | None = None
    named: Callable[[str], str] = str

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
        """Receive a part of the result as soon as it is known, and end the stage that it comes from.

        Each workflow documents the records it reports.
        """
        self.end_stage()

    @contextmanager
    def counting(self, name: str, total: int | None = None, unit: str = "texts") -> Iterator[None]:
        """Report the items that are finished inside the block, such as translated texts, as a stage."""
        with self.ending_stages(), counting(name, self.stage, total, unit):
            yield


QUIET = Progress()


class TerminalProgress(Progress):
    """Prints notes and stages on stderr. A stage is a bar on a terminal, or a line every 20 seconds elsewhere."""

    def __init__(self) -> None:
        self._lines = self.log = LogLines(sys.stderr)
        self._stage, self._last_time = "", 0.0
        self._live = sys.stderr.isatty()
        self._bar: _Bar | None = None

    def note(self, text: str) -> None:
        """Print a note."""
        self.end_stage()
        say(self.named(text))

    def stage(self, name: str, done: int, total: int | None = None, unit: str = "pairs") -> None:
        """Print the name of a new stage, or how much of it is done."""
        if self._live:
            if self._bar is None or name != self._stage:
                self.end_stage()
                self._bar = _Bar(name, self._lines)
            self._bar.update(done, total, unit)
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
            self._bar.end()
            self._bar = None


class _Bar:
    """A line of the terminal with the name of a stage, a bar, the count and the time left."""

    def __init__(self, name: str, lines: LogLines) -> None:
        self._name, self._lines, self._text = name, lines, ""
        self._start, self._drawn = time.monotonic(), -math.inf

    def update(self, done: int, total: int | None, unit: str) -> None:
        """Show how much is done, unless the line was drawn a moment ago."""
        bar, left = "", ""
        if total:
            bar = f" [{'=' * (_BAR_CHARS * done // total):{_BAR_CHARS}}]"
            seconds = time.monotonic() - self._start
            left = f", {duration(seconds / done * (total - done))} left" if 0 < done < total else ""
        self._text = f"{self._name}{bar} {count_text(done, total, unit)}{left}"
        if time.monotonic() - self._drawn > _REDRAW_SECONDS:
            self._draw()

    def end(self) -> None:
        """Show the last state, and continue below it."""
        self._draw()
        self._lines.close()

    def _draw(self) -> None:
        self._lines.progress({}, None, self._text[: shutil.get_terminal_size().columns - 1])
        self._drawn = time.monotonic()


def count_text(done: int, total: int | None, unit: str) -> str:
    """How much of a stage is done, such as "1,200 of 3,000 texts", or "" for a stage without counts."""
    if not done and total is None:
        return ""
    return f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"


@dataclass(frozen=True, slots=True)
class PairCounts:
    """The report of cleaning, and the number of validation and test pairs. `test` is None without a test set.

    `corpora` has the counts of each of several corpora.
    """

    cleaning: "CleaningReport"
    dev: int
    test: int | None
    corpora: "tuple[PreparedCorpus, ...]" = ()


@dataclass(frozen=True, slots=True)
class PartScores:
    """The scores on a part of the data, "validation" or "test", translated with a beam of `beam_size`."""

    part: str
    num_sentences: int
    beam_size: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A score on the data set `data` before and after fine-tuning."""

    data: str
    num_sentences: int
    before: Score
    after: Score


@dataclass(frozen=True, slots=True)
class FinalScores:
    """The scores of a finished run, one line that explains them (`dragoman.evaluation.verdict`), and all changes.

    `changes` has the scores before and after fine-tuning, on each data set.
    """

    verdict: str
    parts: tuple[PartScores, ...]
    changes: tuple[ScoreChange, ...] = ()
