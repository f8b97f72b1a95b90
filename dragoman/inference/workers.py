"""Several batches at once on a CPU: one Python thread a core, each computing on one thread.

torch lets other Python threads run while it computes. Two batches on two cores were 1.6 times as fast as one after the
other (docs/log.md); two threads inside every operation gain less on operations this small, and lose it all as soon as
another process needs one of the cores, because each operation waits for its slower half.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from dragoman.devices.threads import compute_on_one_thread, own_threads_restored

Item = TypeVar("Item")
TaskResult = TypeVar("TaskResult")


def num_search_threads(device: torch.device) -> int:
    """As many as torch's threads on a CPU; another device computes one batch at a time."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def map_in_threads(
    work: Callable[[Item], TaskResult],
    items: Sequence[Item],
    workers: int,
    give_up: Callable[[], None] | None = None,
) -> list[TaskResult]:
    """What `work` makes of every item, in order.

    An exception in one of them, or an interrupt of the waiting thread, leaves those not begun undone and is raised once
    those begun are finished; `give_up` tells these that nobody wants the rest.
    """
    workers = min(workers, len(items))
    if workers <= 1:
        return [work(item) for item in items]
    with own_threads_restored(), ThreadPoolExecutor(workers, "translate", compute_on_one_thread) as pool:
        pending = [pool.submit(work, item) for item in items]
        try:
            return [one.result() for one in pending]
        except BaseException:
            if give_up is not None:
                give_up()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
