"""What signals do while a test runs. Tests under nohup start with SIGHUP ignored, and so do their processes."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Disposition = signal.Handlers | Callable[[int, FrameType | None], object]


@contextmanager
def disposition_of(number: signal.Signals, wanted: Disposition = signal.SIG_DFL) -> Iterator[None]:
    """Inside the block, a signal does what a test needs, also in processes that start there."""
    before = signal.signal(number, wanted)
    try:
        yield
    finally:
        signal.signal(number, before)
