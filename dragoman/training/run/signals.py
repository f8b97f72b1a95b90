"""SIGINT, SIGTERM and SIGHUP: save and exit. A second signal exits at once, after removing temporary files."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType

from dragoman.interrupts import interrupts

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
    for number in numbers if threading.current_thread() is threading.main_thread() else ():
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
