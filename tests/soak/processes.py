"""Child processes to kill, and the time and memory that work takes."""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from dragoman.errors import DragomanError

P = ParamSpec("P")
T = TypeVar("T")


def fork(work: Callable[[], object]) -> int:
    """Run `work` in a fork of this process and return the child's id. Exit code 2 is a DragomanError."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except DragomanError as error:
            sys.stderr.write(f"dragoman: {error}\n")
            code = 2
        finally:
            os._exit(code)
    return child


def exit_status(child: int) -> int:
    """Wait for a child; return its status as `os.waitpid` does."""
    return os.waitpid(child, 0)[1]


def run_in_new_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function of a module, called in a fresh interpreter."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def memory_bytes(key: str) -> int:
    """An entry of /proc/self/status: VmRSS is the memory in use, VmHWM its peak."""
    lines = Path("/proc/self/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


class Cost:
    """Seconds that the body of a `with` takes, and bytes of the peak above the memory before."""

    def __enter__(self) -> "Cost":
        self._bytes_before, self._start = memory_bytes("VmRSS"), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.peak_bytes = memory_bytes("VmHWM") - self._bytes_before


def least_seconds(work: Callable[[str], object], text: str, repeats: int) -> float:
    """The minimum processor time of several calls."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work(text)
        found.append(time.process_time() - start)
    return max(min(found), 1e-4)
