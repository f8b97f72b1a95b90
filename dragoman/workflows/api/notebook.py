"""Progress in a notebook: one display that is updated in place, with a bar, figures and the live curve of training.

It is plain HTML without scripts, so it needs no widgets, and the last state stays in the saved notebook.

The curve of a run in training, as a small SVG picture.

It is drawn after every progress line, and takes less than a millisecond. `Run.plot` draws all curves with matplotlib,
which takes half a second.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from dragoman.counting import show_by_default
from dragoman.display import is_notebook
from dragoman.training.run.log import LogDisplay, duration
from dragoman.workflows.api.keywords import name_keywords
from dragoman.workflows.progress import Progress, TerminalProgress, count_text

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

_UPDATE_SECONDS, _PATIENCE_SECONDS = 0.5, 1.0
_BAR = "display: inline-block; width: 20em; height: 0.7em; background: rgba(128, 128, 128, 0.3); margin: 0 0.6em"


def default_progress() -> Progress:
    """Progress for a function of `import dragoman`: a display in a notebook, and standard error elsewhere."""
    return NotebookProgress() if is_notebook() else TerminalProgress()


def show_counts_in_notebooks() -> None:
    """From now on, a `Translator` that is called in a notebook shows how many texts are translated."""
    if is_notebook():
        show_by_default(lambda: NotebookProgress().stage)


class NotebookProgress(Progress):
    """Shows stages, notes and training in one display of a notebook. Calls of less than a second show only notes."""

    def __init__(self) -> None:
        self._training = _TrainingDisplay(self._show)
        self.log = self._training
        self._notes: list[str] = []
        self._stage: tuple[str, int, int | None, str] | None = None
        self._handle: DisplayHandle | None = None
        self._start = self._stage_start = time.monotonic()
        self._shown = 0.0

    def note(self, text: str) -> None:
        """Show a note below the bar."""
        self._notes.append(name_keywords(self.named(text)))
        self._show()

    def stage(self, name: str, done: int, total: int | None = None, unit: str = "pairs") -> None:
        """Show the bar of a stage. When all items are done, a line with the time replaces it."""
        if self._stage is None or self._stage[0] != name:
            self._stage_start = time.monotonic()
        self._stage = (name, done, total, unit)
        if done == total:
            self.end_stage()
        elif time.monotonic() - self._start > _PATIENCE_SECONDS:
            self._show(unless_recent=True)

    def end_stage(self) -> None:
        """Replace the bar by the time that the stage took, if it took a second."""
        if self._stage is None:
            return
        name, done, _, unit = self._stage
        self._stage, seconds = None, time.monotonic() - self._stage_start
        if self._handle is not None and done and seconds > _PATIENCE_SECONDS:
            self.note(f"{name}: {count_text(done, None, unit)} in {duration(seconds)}")

    def _show(self, unless_recent: bool = False) -> None:
        """Update the display, but not twice in half a second if `unless_recent`."""
        now = time.monotonic()
        if unless_recent and now - self._shown < _UPDATE_SECONDS:
            return
        self._shown = now
        stage = self._stage_html() if self._stage else ""
        notes = "".join(f"<div>{escape(note)}</div>" for note in self._notes)
        html = f'{self._training.html()}{stage}<div style="opacity: 0.75; font-size: 90%">{notes}</div>'
        data = {"text/html": html, "text/plain": self._training.text or "\n".join(self._notes) or " "}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)  # type: ignore[no-untyped-call]

    def _stage_html(self) -> str:
        assert self._stage is not None
        name, done, total, unit = self._stage
        seconds = time.monotonic() - self._stage_start
        left = f", {duration(seconds / done * (total - done))} left" if total and done else ""
        return (
            f"<div>{escape(name)} {_bar(done / total if total else None)} {count_text(done, total, unit)}{left}</div>"
        )


class _TrainingDisplay(LogDisplay):
    """The part of the display that shows training: a bar, the latest figures, the curve and the lines of the log."""

    def __init__(self, show: Callable[..., None]) -> None:
        self._show = show
        self.text = ""
        self._lines: list[str] = []
        self._event: Mapping[str, Any] = {}
        self._seconds_left: float | None = None
        self._validation = ""
        self._training_curve: list[tuple[float, float]] = []
        self._validation_curve: list[tuple[float, float]] = []

    def say(self, text: str) -> None:
        """Add a line to the log below the curve."""
        self.text = name_keywords(text)
        self._lines.append(self.text)
        self._show()

    def progress(self, event: Mapping[str, Any], seconds_left: float | None, text: str) -> None:
        """Show the latest figures and extend the curve."""
        self.text, self._event, self._seconds_left = text, event, seconds_left
        self._training_curve.append((event["step"], event["perplexity"]))
        self._show(unless_recent=True)

    def validation(self, event: Mapping[str, Any], text: str) -> None:
        """Show the validation and mark it in the curve."""
        self.text = self._validation = text
        self._validation_curve.append((event["step"], event["perplexity"]))
        self._show()

    def close(self) -> None:
        """Show the end of training: no time is left."""
        if self._seconds_left is not None:
            self._seconds_left = 0.0
            self._show()

    def html(self) -> str:
        """The training part as HTML, or nothing before training starts."""
        if not self._lines:
            return ""
        event, left, parts = self._event, self._seconds_left, []
        if event:
            share = None if left is None else event["seconds"] / max(event["seconds"] + left, 1e-9)
            time_left = f"{duration(left)} left" if left else ""
            position = f"step {event['step']:,} · epoch {event['epoch'] + 1:,}"
            figures = f"{event['tokens_per_second']:,.0f} tokens/s · perplexity {event['perplexity']:,.2f}"
            parts.append(f"<div>training {_bar(share)} {time_left}</div><div>{position} · {figures}</div>")
        parts.append(f"<div>{escape(self._validation)}</div>")
        parts.append(svg_curve(self._training_curve, self._validation_curve))
        lines = escape("\n".join(self._lines))
        parts.append(f"<details><summary>{escape(self._lines[-1])}</summary><pre>{lines}</pre></details>")
        return "".join(parts)


def _bar(share: float | None) -> str:
    """A bar that is filled up to a share from 0 to 1, or empty if the share is not known."""
    width = f"{100 * min(max(share or 0.0, 0.0), 1.0):.1f}%"
    filled = f'<span style="display: block; width: {width}; height: 100%; background: #0072b2"></span>'
    return f'<span style="{_BAR}">{filled}</span>'


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 460, 150, 52, 22
_MOST_POINTS = 400

_Points = Sequence[tuple[float, float]]  # (step, perplexity)


def svg_curve(training: _Points, validation: _Points) -> str:
    """Plot perplexity over steps, on a logarithmic scale: training as a line, validations as dots.

    Points that are not finite are left out. Returns "" for fewer than two points.
    """
    curves = [
        [point for point in curve if math.isfinite(point[1]) and point[1] > 0] for curve in (training, validation)
    ]
    points = [point for curve in curves for point in curve]
    if len(points) < 2:
        return ""
    last_step = max(step for step, _ in points)
    low, high = min(value for _, value in points), max(value for _, value in points)
    span = math.log(high / low) or 1.0

    def place(point: tuple[float, float]) -> tuple[float, float]:
        step, value = point
        across = _LEFT + (_WIDTH - _LEFT - 8) * step / max(last_step, 1)
        return across, 6 + (_HEIGHT - _BOTTOM - 12) * math.log(high / value) / span

    line, dots = ([place(point) for point in _thin(curve)] for curve in curves)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#d55e00"/>' for x, y in dots)
    middle = (6 + _HEIGHT - _BOTTOM - 6) / 2
    labels = (
        _label(_LEFT - 6, 12, f"{high:,.3g}", "end"),
        _label(_LEFT - 6, _HEIGHT - _BOTTOM - 2, f"{low:,.3g}", "end"),
        _label(_WIDTH - 8, _HEIGHT - 6, f"step {last_step:,.0f}", "end"),
        _label(_LEFT, _HEIGHT - 6, "perplexity: line training, dots validation", "start"),
    )
    frame = f"M{_LEFT} 6V{_HEIGHT - _BOTTOM}H{_WIDTH - 8}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="perplexity of training and validation" style="display: block">'
        f'<path d="{frame}M{_LEFT} {middle}h-4" fill="none" stroke="#888888"/>'
        f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="1.6"/>{marks}{"".join(labels)}</svg>'
    )


def _thin(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Up to about `_MOST_POINTS` points, evenly spaced, with the last one."""
    every = -(-len(curve) // _MOST_POINTS)
    return curve[::-1][:: max(1, every)][::-1]


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11" font-family="sans-serif" '
        f'fill="currentColor">{text}</text>'
    )
