"""Ctrl-C: the first raises KeyboardInterrupt; whatever becomes of that, the process ends with one line and code 130."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

EXIT_CODE = 130
# Cleaning up takes some milliseconds. A second Ctrl-C meanwhile would only tear it; a later one means that it hangs.
_GRACE_SECONDS = 2.0


class Interrupts:
    """What SIGINT does to this process.

    `last_words` returns the line that is printed. Once a signal is `noted` by code that saves and leaves by itself, the
    next one ends the process at once.
    """

    def __init__(self) -> None:
        self.last_words: Callable[[], str] | None = None
        self.noted = False
        self._first: float | None = None

    @property
    def is_leaving(self) -> bool:
        """Whether an interrupt was raised that nothing may catch for good."""
        return self._first is not None

    def install(self) -> None:
        """Handles SIGINT from here on, for the life of the process; where it is ignored, it stays so."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.last_words = lambda: "interrupted."
            signal.signal(signal.SIGINT, self._handle)
            sys.unraisablehook = self._unraisable

    def has_saved(self) -> None:
        """From here on there is nothing to say, and the process ends by itself."""
        self.last_words, self.noted, self._first = None, False, time.monotonic()

    def say_last_words(self) -> None:
        """Prints the line, once, past all buffers."""
        words, self.last_words = self.last_words, None
        if words is not None:
            line = f"dragoman: {words()}\n".encode()
            with suppress(OSError):  # nobody reads it
                os.write(2, b"\n" + line if os.isatty(2) else line)

    def leave(self) -> NoReturn:
        """Ends the process without cleaning up: what is half written is removed by the next command."""
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
        """An interrupt that comes in a destructor or a callback would be shown and forgotten."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self.leave()
        sys.__unraisablehook__(unraisable)


interrupts = Interrupts()
"""The process's own: a command installs it, the library never does."""
