"""Signals that stop a process, a training run or a server, and SIGHUP, which reloads a server. Worker processes.

Ctrl-C: the first raises KeyboardInterrupt, and the process always ends with one line and exit code 130. In training, a
signal asks for a stop after the current step, so that a checkpoint is saved.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
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


_TERMINATING = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))  # Windows has no SIGHUP
_KILLING = {signal.SIGINT, signal.SIGTERM}  # caught even if they are ignored


class Interrupted(Exception):
    """The run has saved and stopped because of the signal `signal_number`."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP, as shells report them."""
        return 128 + self.signal_number


def _handle(
    stack: contextlib.ExitStack, numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]
) -> None:
    """Handle signals until the stack is closed. Outside the main thread, where Python cannot, nothing is handled."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in numbers:
        stack.callback(signal.signal, number, signal.signal(number, handler))


@contextlib.contextmanager
def clean_up_when_terminated() -> Iterator[None]:
    """Inside the block, SIGTERM and SIGHUP raise SystemExit, so that `with` and `finally` clean up.

    Does nothing outside the main thread, nor for a signal that is ignored or handled by other code.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with contextlib.ExitStack() as stack:
        _handle(stack, [number for number in _TERMINATING if signal.getsignal(number) == signal.SIG_DFL], leave)
        yield


@dataclass(slots=True)
class StopRequest:
    """The first signal that arrived, or None."""

    signal_number: int | None = None


@contextlib.contextmanager
def hold_back_signals() -> Iterator[StopRequest]:
    """Inside the block, the first signal of `catch_signals` is only noted. It takes effect at the end.

    Use it for code that an exception must not interrupt. A process that was started but is in no variable yet could
    not be ended, and a lock that was just taken would not be released. A second SIGINT raises KeyboardInterrupt.
    """
    with catch_signals(leaves=False) as request:
        yield request
    if request.signal_number is not None:
        signal.raise_signal(request.signal_number)


@contextlib.contextmanager
def catch_signals(leaves: bool = True) -> Iterator[StopRequest]:
    """Inside the block, note the first SIGINT, SIGTERM or SIGHUP. Afterwards the earlier handlers are restored.

    An ignored SIGHUP (nohup) stays ignored. Outside the main thread, where Python cannot catch signals, nothing is
    noted. With `leaves`, a second SIGINT ends the command at once, which an exception might not do.
    """
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_number = number
        interrupts.noted = leaves
        stack.close()

    caught = {number for number in _TERMINATING if signal.getsignal(number) != signal.SIG_IGN}
    with contextlib.ExitStack() as stack:
        _handle(stack, caught | _KILLING, note)
        yield request


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


class WorkerProcess:
    """A process of Python with a program that answers requests on its input until the input ends.

    Ctrl-C does not reach the process. It inherits the file descriptors `fds`. `process` is None if it could not be
    started, and after `end`.
    """

    def __init__(self, program: str, *arguments: str, fds: Sequence[int] = (), **environment: str) -> None:
        from subprocess import DEVNULL, PIPE, Popen  # most commands need no other process

        home = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
        self.process: Popen[bytes] | None = None
        with suppress(OSError):
            self.process = Popen(
                [sys.executable, "-P", "-c", program, *arguments],  # -P: no modules from the working directory
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                pass_fds=fds,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, **environment},
            )

    def end(self) -> None:
        """Kill the process, if it is not gone yet."""
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            with suppress(OSError), process:  # closing a pipe may fail to flush; nobody needs the content
                pass
