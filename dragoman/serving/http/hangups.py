"""SIGHUP: reloads a server, or ends it if its terminal was closed.

`cli/serve.py` imports this module before the slow ones, and `http/server.py` handles the signal when it listens.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HAD_TERMINAL = any(map(os.isatty, range(3)))


def is_terminal_closed() -> bool:
    """Whether the process was started in a terminal that is closed now."""
    return _HAD_TERMINAL and not any(map(os.isatty, range(3)))


def can_reload() -> bool:
    """Whether SIGHUP reloads: not on Windows, and not if it is ignored, as under nohup."""
    return hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN


@contextmanager
def hold_reloads() -> Iterator[list[int]]:
    """Note each SIGHUP in this block, until a server handles it. It would end the process during the start.

    A signal mask does not help: threads of libraries receive the signal instead.
    """
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if is_terminal_closed():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        held.append(number)

    if not can_reload():
        yield held
        return
    before = signal.signal(signal.SIGHUP, hold)
    try:
        yield held
    finally:
        signal.signal(signal.SIGHUP, before)
