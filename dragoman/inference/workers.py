"""Several batches at once on a CPU: one Python thread a core, each computing on one thread.

torch lets other Python threads run while it computes. Two batches on two cores are nearly twice as fast as one after
the other; two threads inside every operation gain much less on operations this small, and lose it all as soon as
another process needs one of the cores, because each operation waits for its slower half.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_workers(device: torch.device) -> int:
    """As many as torch's threads on a CPU; another device computes one batch at a time."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def each_of(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> list[Result]:
    """What `work` makes of every item, in order.

    An exception in one of them, or an interrupt of the waiting thread, leaves those not begun undone and is raised once
    those begun are finished.
    """
    workers = min(workers, len(items))
    if workers <= 1:
        return [work(item) for item in items]
    with _own_threads_restored(), ThreadPoolExecutor(workers, "translate", _compute_on_one_thread) as pool:
        pending = [pool.submit(work, item) for item in items]
        try:
            return [one.result() for one in pending]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _compute_on_one_thread() -> None:
    torch.get_num_threads()  # the first call of a thread sets its number to the default, after any earlier setting
    torch.set_num_threads(1)


@contextmanager
def _own_threads_restored() -> Iterator[None]:
    """Setting the number in one thread also changes what the others' libraries share."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
