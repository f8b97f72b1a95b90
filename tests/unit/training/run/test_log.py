"""The log of a run as JSON, as lines on a terminal, and for TensorBoard."""

import errno
import io
import json
import math
import os
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from dragoman.training.run.log import LogLines, RunLog, perplexity

EVENT = {"step": 7, "epoch": 0, "loss": 2.5, "perplexity": 9.0, "learning_rate": 1e-3, "tokens_per_second": 900.0}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_and_json(tmp_path: Path) -> None:
    stream = io.StringIO()
    log = RunLog(tmp_path, LogLines(stream))
    log.progress(EVENT, seconds_left=3720)
    log.validation({"step": 7, "epoch": 1, "loss": 2.0, "perplexity": 7.4, "bleu": 3.2, "chrf": 20.1}, best=True)
    log.close()
    lines = stream.getvalue().split("\n")
    assert "step      7  epoch   1  loss 2.500" in lines[0]
    assert lines[0].endswith("1 h 02 min left")
    assert lines[1] == "validation after step 7: perplexity 7.40  bleu 3.20  chrf 20.10  best so far"
    assert "\r" not in stream.getvalue()
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().split("\n") if line]
    assert events[0] == {"event": "train", **EVENT}
    assert events[1]["bleu"] == 3.2


def test_a_forecast_is_in_the_line_and_in_the_log(tmp_path: Path) -> None:
    stream = io.StringIO()
    event = {"step": 7, "loss": 2.0, "perplexity": 7.4, "bleu": 3.2, "chrf": 20.1}
    event |= {"bleu_at_end": 30.2, "bleu_at_end_low": 27.6, "bleu_at_end_high": 33.4}
    RunLog(tmp_path, LogLines(stream)).validation(event, best=True)
    assert stream.getvalue() == (
        "validation after step 7: perplexity 7.40  bleu 3.20 (28 to 33 at the end)  chrf 20.10  best so far\n"
    )
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"event": "validation", **event}


def test_a_run_continues_after_its_terminal_is_closed(tmp_path: Path) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    log = RunLog(tmp_path, LogLines(Closed()))
    log.progress(EVENT, None)
    log.say("Saved.")
    log.close()
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"event": "train", **EVENT}


def test_numbers_that_are_not_finite_are_null_in_json(tmp_path: Path) -> None:
    log = RunLog(tmp_path, LogLines(io.StringIO()))
    log.progress({**EVENT, "loss": math.nan, "perplexity": math.inf}, seconds_left=None)
    log.close()
    text = (tmp_path / "log.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"event": "train", **EVENT, "loss": None, "perplexity": None}


def test_a_terminal_shows_progress_in_one_line(tmp_path: Path) -> None:
    stream = Terminal()
    log = RunLog(tmp_path, LogLines(stream))
    log.progress(EVENT, None)
    log.progress(EVENT, None)
    log.say("Stopped.")
    log.close()
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().endswith("\nStopped.\n")


def test_lines_after_the_checkpoint_are_dropped_including_damaged_ones(tmp_path: Path) -> None:
    log = RunLog(tmp_path, LogLines(io.StringIO()))
    for step in (5, 10, 15):
        log.progress({**EVENT, "step": step}, None)
    with (tmp_path / "log.jsonl").open("ab") as stream:
        stream.write(b'\xff\x00\n{"event": "train", "st')
    log.drop_after(10)
    log.close()
    assert [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().split("\n") if line] == [5, 10]


def test_tensorboard_gets_the_curves(tmp_path: Path) -> None:
    log = RunLog(tmp_path, LogLines(io.StringIO()))
    log.progress(EVENT, None)
    log.finding(7, "same output", "Nearly every sentence gets the same translation.")
    log.close()
    accumulator = EventAccumulator(str(tmp_path / "tensorboard"))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == {f"train/{name}" for name in EVENT} - {
        "train/step",
        "train/epoch",
    }
    (point,) = accumulator.Scalars("train/loss")
    assert (point.step, point.value) == (7, 2.5)


def test_a_disk_too_full_for_tensorboard_stops_neither_the_run_nor_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, full = io.StringIO(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    log = RunLog(tmp_path, LogLines(stream))
    with monkeypatch.context() as patched:
        patched.setattr(RecordWriter, "write", mock.Mock(side_effect=full))
        log.progress(EVENT, None)
    log.progress(EVENT, None)
    log.close()
    assert stream.getvalue().count("TensorBoard's file could not be written") == 1
    assert len((tmp_path / "log.jsonl").read_text().split("\n")) == 3
    (tmp_path / "tensorboard").rename(tmp_path / "before")
    (tmp_path / "tensorboard").write_text("a file where the folder should be")
    RunLog(tmp_path, LogLines(stream)).close()
    assert stream.getvalue().count("TensorBoard's file could not be written") == 2


def test_a_tensorboard_that_cannot_be_loaded_is_noted_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise TypeError("Descriptors cannot be created directly.\nIf this call came from a _pb2.py file ...")

    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", Broken("event_pb2"))
    stream = io.StringIO()
    log = RunLog(tmp_path, LogLines(stream))
    log.progress(EVENT, None)
    log.close()
    assert (
        stream.getvalue()
        .splitlines()[0]
        .endswith("TensorBoard is installed, but cannot be loaded (Descriptors cannot be created directly.).")
    )
    assert (tmp_path / "log.jsonl").exists()


def test_perplexity_does_not_overflow() -> None:
    assert perplexity(1.0) == math.e
    assert perplexity(1e6) == math.inf
