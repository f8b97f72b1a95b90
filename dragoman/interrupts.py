"""Ctrl-C: the first raises KeyboardInterrupt, and the process always ends with one line and exit code 130."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

EXIT_CODE = 130
# Cleaning up takes some milliseconds. An earlier second Ctrl-C is ignored, a later one means that the cleanup hangs.
_GRACE_SECONDS = 2.0


class Interrupts:
    """The handler of SIGINT in this process.

    `last_words` returns the line to print. Code that saves and ends the process itself sets `noted`. The next signal
    then ends the process at once.
    """

    def __init__(self) -> None:
        self.last_words: Callable[[], str] | None = None
        self.noted = False
        self._first: float | None = None

    @property
    def is_leaving(self) -> bool:
        """True after an interrupt: the process must end, even if code catches the exception."""
        return self._first is not None

    def install(self) -> None:
        """Handle SIGINT until the process ends, unless SIGINT is ignored."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.last_words = lambda: "interrupted."
            signal.signal(signal.SIGINT, self._handle)
            sys.unraisablehook = self._unraisable

    def has_saved(self) -> None:
        """Print no last words: the work is saved, and the process ends by itself."""
        self.last_words, self.noted, self._first = None, False, time.monotonic()

    def say_last_words(self) -> None:
        """Print the last words once, without buffers."""
        words, self.last_words = self.last_words, None
        if words is not None:
            line = f"dragoman: {words()}\n".encode()
            with suppress(OSError):  # standard error is closed
                os.write(2, b"\n" + line if os.isatty(2) else line)

    def leave(self) -> NoReturn:
        """End the process without cleaning up. The next command removes half-written files."""
        self.say_last_words()
        os._exit(EXIT_CODE)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.noted or (self._first is not None and now - self._first > _GRACE_SECONDS):
            self.leave()
        if self._first is None:
            self._first = now
            raise KeyboardInterrupt

    def _unraisable(self, unraisable: Any) -> None:
        """End the process after an interrupt in a destructor or callback, which Python would print and ignore."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self.leave()
        sys.__unraisablehook__(unraisable)


interrupts = Interrupts()
"""The handler of this process. Commands install it, the library never does."""
