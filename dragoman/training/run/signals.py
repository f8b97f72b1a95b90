"""SIGINT, SIGTERM and SIGHUP ask a run to save and leave; a second one leaves at once. What is temporary goes first."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from dragoman.interrupts import interrupts

_TERMINATING = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))  # Windows has no SIGHUP
_KILLING = (signal.SIGINT, signal.SIGTERM)  # caught even where they are ignored


class Interrupted(Exception):
    """The run was asked to stop and has saved itself; `signal_number` says by what."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP, as shells report them."""
        return 128 + self.signal_number


@contextlib.contextmanager
def clean_up_when_terminated() -> Iterator[None]:
    """While it lasts, SIGTERM and SIGHUP are an exit like another, which undoes what `with` and `finally` began.

    Does nothing outside the main thread, and for a signal that is ignored or that other code handles.
    """
    free = []
    if threading.current_thread() is threading.main_thread():
        free = [number for number in _TERMINATING if signal.getsignal(number) == signal.SIG_DFL]

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in free:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)


@dataclass(slots=True)
class StopRequest:
    """The signal that came, if one came."""

    signal_number: int | None = None


@contextlib.contextmanager
def hold_back_signals() -> Iterator[StopRequest]:
    """While it lasts, the first signal of `catch_signals` is only noted; it acts at the end.

    For what must not be torn by an exception between any two instructions: a process that was started but is not yet
    in any variable is one that nobody can end, and a lock that was just taken is never given back. A second SIGINT
    raises KeyboardInterrupt.
    """
    with catch_signals(leaves=False) as request:
        yield request
    if request.signal_number is not None:
        signal.raise_signal(request.signal_number)


@contextlib.contextmanager
def catch_signals(leaves: bool = True) -> Iterator[StopRequest]:
    """While it lasts, note the first SIGINT, SIGTERM or SIGHUP. After it, all of them act as they did before.

    A SIGHUP that is ignored (nohup) stays ignored. Outside the main thread, where Python cannot catch signals, nothing
    is noted. With `leaves`, a second SIGINT ends a command at once; an exception, which may come anywhere, would not.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_TERMINATING)}
    before = {number: found for number, found in before.items() if number in _KILLING or found != signal.SIG_IGN}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_number = number
        interrupts.noted = leaves
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
