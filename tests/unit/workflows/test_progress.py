"""Progress on a terminal: bars that end before anything else is printed."""

import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from dragoman.counting import count_items
from dragoman.display import say
from dragoman.errors import DataError
from dragoman.workflows.progress import Progress, TerminalProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal. Not a fixture, because pytest replaces standard error after its fixtures."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def test_a_stage_is_a_bar_and_a_note_comes_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = TerminalProgress()
    for done in (0, 1200, 3000):
        progress.stage("translating", done, 3000, "texts")
    progress.note("the report is report.html")
    progress.stage("encoding", 10_000)
    progress.result(None)
    last = terminal.getvalue().rpartition("dragoman: the report is report.html\n")
    assert "3,000 of 3,000 texts" in last[0]
    assert "translating" not in last[2]
    assert "10,000 pairs" in last[2]


def test_counting_ends_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = TerminalProgress()
    with progress.counting("translating", 2):
        count_items(2)
    assert "2 of 2 texts" in terminal.getvalue()
    with Progress().counting("translating", 2):
        count_items(1)


def test_an_error_ends_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the message would be printed behind the bar."""
    terminal = open_terminal(monkeypatch)
    progress = TerminalProgress()

    def fail(block: AbstractContextManager[None], report: Callable[[], None]) -> None:
        with block:
            report()
            raise DataError("no pair is left")

    with pytest.raises(DataError):
        fail(progress.ending_stages(), lambda: progress.stage("encoding", 10))
    with pytest.raises(DataError):
        fail(progress.counting("translating", 2), lambda: count_items(1))
    assert terminal.getvalue().count("\n") == 2
    assert terminal.getvalue().endswith("1 of 2 texts, 0 min 00 s left\n")


def test_a_note_replaces_the_bar_until_it_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with TerminalProgress().counting("translating", 2):
        count_items(1)
        say("line 1 is long")
    assert "left\r\033[Kdragoman: line 1 is long\n\r\033[Ktranslating [===" in terminal.getvalue()
