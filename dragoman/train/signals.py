"""SIGINT and SIGTERM ask a run to save and leave; a second one leaves at once. What is temporary goes first."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType

_CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The run was asked to stop and has saved itself; `signal_number` says by what."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM, as shells report them."""
        return 128 + self.signal_number


@contextlib.contextmanager
def cleaned_up_on_sigterm() -> Iterator[None]:
    """While it lasts, SIGTERM is an exit like another, which undoes what `with` and `finally` began.

    Does nothing outside the main thread, and where somebody else handles the signal.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@dataclass(slots=True)
class StopRequest:
    """The signal that came, if one came."""

    signal_number: int | None = field(default=None)


@contextlib.contextmanager
def caught_signals() -> Iterator[StopRequest]:
    """While it lasts, the first SIGINT or SIGTERM is only noted; the second acts as it did before.

    Outside the main thread, where Python lets nobody catch signals, nothing is ever noted.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in _CAUGHT}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_number = number
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in _CAUGHT:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def signals_held_back() -> Iterator[StopRequest]:
    """While it lasts, the first SIGINT or SIGTERM is only noted; it acts at the end.

    For what must not be torn by an exception between any two instructions: a process that was started but is not yet
    in any variable is one that nobody can end, and a lock that was just taken is never given back.
    """
    with caught_signals() as request:
        yield request
    if request.signal_number is not None:
        signal.raise_signal(request.signal_number)
