"""Threads and freed memory of the process: the number of threads, one for parallel work, and the allocator.

Torch's numbers are used once torch is imported. Before that, they are predicted.

Freed memory: whether the C allocator keeps it or returns it to the system.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_this_thread = threading.local()


def compute_on_one_thread() -> None:
    """Make torch operations of the calling Python thread run on one thread. Call it once in each thread."""
    _this_thread.is_alone = True
    if torch := _imported_torch():
        # The first call in a thread sets its number to the default, which would overwrite an earlier set_num_threads.
        torch.get_num_threads()
        torch.set_num_threads(1)


@contextmanager
def restore_num_threads() -> Iterator[None]:
    """Restore the thread count of the calling thread afterwards.

    Setting the number in one thread also changes what other threads read in the libraries that they share.
    """
    torch = _imported_torch()
    before = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(before)


def num_cpu_threads() -> int:
    """Torch's number of threads in the calling thread, or the number it would have if it were imported."""
    is_alone = getattr(_this_thread, "is_alone", False)
    if torch := _imported_torch():
        if is_alone:  # torch may have been imported since
            torch.set_num_threads(1)
        return int(torch.get_num_threads())
    return 1 if is_alone else _default_num_threads()


def _imported_torch() -> Any:
    """The module, or None if it is not imported yet, or another thread is still importing it."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None


def _default_num_threads() -> int:
    """Physical cores that this process may use, or fewer if OMP_NUM_THREADS or MKL_NUM_THREADS is set."""
    cores = _num_cores()
    wanted = (os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
    return min(cores, next((int(one) for one in wanted if one.isdecimal() and int(one) > 0), cores))


def _num_cores() -> int:
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for processor in os.sched_getaffinity(0):
        core = str(processor)
        with suppress(OSError):
            core = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list").read_text()
        cores.add(core)
    return len(cores)


# Parameters of mallopt: M_MMAP_THRESHOLD (32 MB, its maximum), M_TRIM_THRESHOLD (never trim) and M_TOP_PAD (64 MB).
_KEEP = ((-3, 32 << 20), (-1, 2**31 - 1), (-2, 64 << 20))


def return_freed_memory() -> None:
    """Return freed memory to the system, if the C library is glibc."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory for later allocations. Other C libraries are left alone.

    Every step allocates and frees the same hundreds of megabytes. Returning them to the system and clearing new pages
    would take about a quarter of a small model's training time, and a tenth of its decoding time. Peak memory does not
    change.
    """
    with suppress(OSError, AttributeError, TypeError):
        allocator = ctypes.CDLL(None)
        for parameter, value in _KEEP:
            allocator.mallopt(parameter, value)
