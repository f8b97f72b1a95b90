"""Computation of several batches at once on a CPU: one Python thread per core, each on one torch thread.

torch releases Python's lock while it computes. Two batches on two cores were 1.6 times as fast as one after the other
(docs/log.md). Two torch threads inside every operation gain less, because the operations are small. They gain nothing
if another process needs one of the cores, because each operation waits for its slower half.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from dragoman.devices.threads import compute_on_one_thread, num_cpu_threads, restore_num_threads

Item = TypeVar("Item")
TaskResult = TypeVar("TaskResult")
_WATCH_SECONDS = 0.2


def num_search_threads(device: object) -> int:
    """Number of batches to search at once on a torch device or a device name: one per thread of a CPU, 1 elsewhere."""
    return num_cpu_threads() if str(device).startswith("cpu") else 1


def map_in_threads(
    work: Callable[[Item], TaskResult],
    items: Sequence[Item],
    workers: int,
    give_up: Callable[[], None] | None = None,
    watch: Callable[[int], None] | None = None,
) -> list[TaskResult]:
    """Apply `work` to every item, in up to `workers` threads, and return the results in order.

    After an exception, or an interrupt of the calling thread, no further item is started. The exception is raised when
    the running items have ended. `give_up` is called first, to let them end early. `watch` is called with the number of
    finished items, several times a second.
    """
    workers = min(workers, len(items))
    if workers <= 1:
        results = []
        for item in items:
            results.append(work(item))
            if watch:
                watch(len(results))
        return results
    with restore_num_threads(), ThreadPoolExecutor(workers, "translate", compute_on_one_thread) as pool:
        pending = [pool.submit(work, item) for item in items]
        try:
            while watch:
                done, unfinished = wait(pending, _WATCH_SECONDS, FIRST_EXCEPTION)
                if not unfinished or any(one.exception() for one in done):
                    break
                watch(len(done))
            return [one.result() for one in pending]
        except BaseException:
            if give_up is not None:
                give_up()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
