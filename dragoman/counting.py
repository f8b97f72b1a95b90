"""Counts of finished items, from the loops that finish them to the code that shows them.

A search counts its finished texts, but has no display. `counting` names a receiver for a block of code. The
loops inside report to it with `count_share` and `count_items`, which do nothing without a receiver.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol


class Show(Protocol):
    """Receiver of counts."""

    def __call__(self, name: str, done: int, total: int | None = None, unit: str = "pairs") -> None:
        """Show that `done` of `total` items are finished. None: the total is not known yet."""


@dataclass(slots=True)
class _Count:
    """The items of one task. A window is a part of the task whose share is reported while it is in work."""

    name: str
    show: Show
    total: int | None
    unit: str
    finished: int = 0
    shown: int = 0
    window: int = 0

    def update(self, done: int) -> None:
        if done > self.shown:  # a second search of some texts starts from zero
            self.shown = done
            self.show(self.name, done, self.total, self.unit)


_current: ContextVar[_Count | None] = ContextVar("count", default=None)
_default_show: list[Callable[[], Show]] = []


@contextmanager
def counting(name: str, show: Show | None = None, total: int | None = None, unit: str = "texts") -> Iterator[None]:
    """Show how many items are finished inside the block.

    Parameters
    ----------
    name
        What happens to the items, such as "translating".
    show
        Receiver of the counts. None: the receiver of the block around this one, or else the default one, if any.
    total
        The number of items. None: unknown.
    unit
        What is counted, in the plural.
    """
    if show is None and (_current.get() is not None or not _default_show):
        yield
        return
    token = _current.set(_Count(name, show or _default_show[0](), total, unit))
    try:
        yield
    finally:
        _current.reset(token)


def show_by_default(receiver: Callable[[], Show]) -> None:
    """Show counts of blocks without a receiver, with a new receiver for each block."""
    _default_show[:] = [receiver]


def is_counting() -> bool:
    """Whether someone receives counts."""
    return _current.get() is not None


def start_window(items: int) -> None:
    """Start to work on some items at once. `count_share` reports how much of them is done."""
    if count := _current.get():
        count.window = items


def count_share(share: float) -> None:
    """Report which share of the window is done, from 0 to 1."""
    if count := _current.get():
        count.update(count.finished + int(count.window * share))


def count_items(items: int) -> None:
    """Report that further items are done. The window, if any, is done too."""
    if count := _current.get():
        count.finished += items
        count.window = 0
        count.update(count.finished)
