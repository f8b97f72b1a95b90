"""The log of a run: log.jsonl for programs, a display for people, and TensorBoard if it is installed.

The curves for TensorBoard: an events file, written with TensorBoard's own library.

Every point is written at once, so a full disk is an error of the call that wrote it. torch's SummaryWriter writes in
another thread, which ends with a traceback. Its error appears in some later call, and again on closing.
"""

import errno
import json
import math
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from dragoman.display import json_text
from dragoman.files import disk_errors, write_file

_LARGE_PERPLEXITY = 1e6


class LogDisplay:
    """Shows the log of a run to people. This class shows nothing; override the methods that you need."""

    def say(self, text: str) -> None:
        """Show a line."""

    def progress(self, event: Mapping[str, Any], seconds_left: float | None, text: str) -> None:
        """Show the progress of training: its record, the time that is left if known, and both as a line."""
        self.say(text)

    def validation(self, event: Mapping[str, Any], text: str) -> None:
        """Show a validation: its record, and the same as a line."""
        self.say(text)

    def close(self) -> None:
        """End the display."""


class LogLines(LogDisplay):
    """Prints lines to a stream. On a terminal the progress line is overwritten in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._pending = False

    def say(self, text: str) -> None:
        """Print a line below the progress line."""
        self.close()
        self._print(text + "\n")

    def progress(self, event: Mapping[str, Any], seconds_left: float | None, text: str) -> None:
        """Print a progress line, over the last one if possible."""
        if self._live:
            self._print(f"\r\033[K{text}")
            self._pending = True
        else:
            self.say(text)

    def close(self) -> None:
        """End the progress line."""
        if self._pending:
            self._print("\n")
            self._pending = False

    def _print(self, text: str) -> None:
        """Print to the stream. Training continues even if the terminal was closed."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            if error.errno != errno.EIO:
                raise


class RunLog:
    """Appends events to RUN/log.jsonl and shows them.

    In a run of several processes only one `speaks`. The logs of the others write nothing.
    """

    def __init__(self, folder: Path, display: LogDisplay | None = None, speaks: bool = True) -> None:
        self._speaks = speaks
        self._path = folder / "log.jsonl"
        self._display = display if display is not None and speaks else LogDisplay()
        self._board: Board | None = None
        if speaks and Board.is_installed():
            with self._drop_board_on_error():
                self._board = Board(folder / "tensorboard")

    def drop_after(self, step: int) -> None:
        """Remove the events after `step`, because those steps are taken again."""
        if not self._path.exists():
            return
        lines = self._path.read_text(encoding="utf-8", errors="replace").split("\n")
        kept = [line for line in lines if line and _step_of(line) <= step]
        write_file(self._path, "".join(line + "\n" for line in kept))

    def say(self, text: str) -> None:
        """Report a line to people only."""
        self._display.say(text)

    def finding(self, step: int, name: str, text: str) -> None:
        """Log a problem of the run, by its short name and in words."""
        self._append({"event": "watchdog", "step": step, "name": name, "text": text})
        self.say(f"watchdog: {text}")

    def change(self, step: int, before: Mapping[str, float], now: Mapping[str, float]) -> None:
        """Log new values of settings from a step on."""
        self._append({"event": "settings", "step": step, "before": before, "now": now})

    def progress(self, event: dict[str, Any], seconds_left: float | None) -> None:
        """Log training progress. `event` has step, epoch, loss, perplexity, learning_rate and tokens_per_second."""
        self._append({"event": "train", **event})
        left = "" if seconds_left is None else f"  {duration(seconds_left)} left"
        text = (
            f"step {event['step']:>6}  epoch {event['epoch'] + 1:>3}  loss {event['loss']:.3f}  "
            f"perplexity {_perplexity_text(event['perplexity'])}  rate {event['learning_rate']:.2e}  "
            f"{event['tokens_per_second']:6.0f} tokens/s{left}"
        )
        self._display.progress(event, seconds_left, text)

    def validation(self, event: dict[str, Any], best: bool) -> None:
        """Log a validation. `event` has step, loss, perplexity, the metrics, and a forecast if there is one."""
        self._append({"event": "validation", **event})
        when = f"after step {event['step']}" if event["step"] else "of the model to fine-tune"
        parts = [f"validation {when}: perplexity {_perplexity_text(event['perplexity']).strip()}"]
        end = " ({bleu_at_end_low:.0f} to {bleu_at_end_high:.0f} at the end)" if "bleu_at_end" in event else ""
        after = {"bleu": end.format_map(event), "chrf": ""}
        parts += [f"{name} {event[name]:.2f}{text}" for name, text in after.items() if name in event]
        self._display.validation(event, "  ".join([*parts, "best so far"] if best else parts))

    def close(self) -> None:
        """End the display and close the files."""
        self._display.close()
        if self._board is not None:
            self._board.close()

    def _append(self, event: dict[str, Any]) -> None:
        if not self._speaks:
            return
        with disk_errors(self._path), self._path.open("a", encoding="utf-8") as stream:
            stream.write(f"{json_text(event)}\n")
        if self._board is not None:
            numbers = {name: value for name, value in event.items() if isinstance(value, int | float)}
            named = {f"{event['event']}/{name}": numbers[name] for name in numbers if name not in ("step", "epoch")}
            with self._drop_board_on_error():
                self._board.add(event["step"], named)

    @contextmanager
    def _drop_board_on_error(self) -> Iterator[None]:
        """Stop writing to TensorBoard after an error. The curves are in log.jsonl as well."""
        try:
            yield
        except OSError as error:
            self._board = None
            self.say(f"TensorBoard's file could not be written, so no more curves go there: {error.strerror}.")


def perplexity(nll: float) -> float:
    """exp of a mean negative log-probability in nats, or infinity if that overflows."""
    return math.exp(nll) if nll < 700 else math.inf


def _perplexity_text(value: float) -> str:
    """The perplexity in about eight characters, whatever its size."""
    return f"{value:8.2f}" if value < _LARGE_PERPLEXITY else f"{value:8.2e}"


def _step_of(line: str) -> float:
    """The step of a log line. A line that a kill cut short counts as later than all steps."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


def duration(seconds: float) -> str:
    """A duration in words: hours and minutes, or minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


class Board:
    """An events file in `folder`. If writing fails, the call that wrote raises OSError."""

    def __init__(self, folder: Path) -> None:
        """Raise OSError, also if the library is installed but cannot be loaded."""
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except Exception as error:  # an installation with incompatible parts may raise anything
            first = str(error).partition("\n")[0]
            raise OSError(0, f"TensorBoard is installed, but cannot be loaded ({first})") from error

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._stream = (folder / name).open("wb", buffering=0)
        self._writer = RecordWriter(self._stream)
        self._writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())

    @staticmethod
    def is_installed() -> bool:
        """True if TensorBoard is installed."""
        return find_spec("tensorboard") is not None

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point to each of the named curves."""
        summary = self._summary(value=[self._summary.Value(tag=name, simple_value=values[name]) for name in values])
        self._writer.write(self._event(wall_time=time.time(), step=step, summary=summary).SerializeToString())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
