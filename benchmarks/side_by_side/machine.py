"""The machine: whether it is idle, its current speed of matrix products, and its description."""

import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.devices.device import multiplies_bfloat16

HAS_BFLOAT16 = multiplies_bfloat16(torch.device("cpu"))
PROBE_ROWS = 2048
PROBE_SECONDS = 0.4
IDLE_SHARE = 0.1
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Probe:
    """GFLOP/s of square matrix products, the best of some: the ceiling of everything that is measured beside it.

    0 for bfloat16 where the processor has none: there a product takes some hundred times as long.
    """

    float32: float
    bfloat16: float


def probe(threads: int) -> Probe:
    """Measure both precisions, in about a second."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return Probe(_gflops(torch.float32), _gflops(torch.bfloat16) if HAS_BFLOAT16 else 0.0)
    finally:
        torch.set_num_threads(before)


def _gflops(dtype: torch.dtype) -> float:
    left, right = torch.randn(PROBE_ROWS, PROBE_ROWS, dtype=dtype), torch.randn(PROBE_ROWS, PROBE_ROWS, dtype=dtype)
    torch.mm(left, right)
    fastest, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < PROBE_SECONDS:
        start = time.perf_counter()
        torch.mm(left, right)
        fastest = min(fastest, time.perf_counter() - start)
    return round(2 * PROBE_ROWS**3 / fastest / 1e9, 1)


class Load:
    """Processor time of other programs since `Load()`, as a share of one core. None except on Linux."""

    def __init__(self) -> None:
        self._began, self._all, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def others(self) -> float | None:
        """Return the share since then, without this process and its ended children."""
        now = _busy_seconds()
        if now is None or self._all is None:
            return None
        used = now - self._all - (_own_seconds() - self._own)
        return round(used / (time.perf_counter() - self._began), 3)


def wait_until_idle(limit_seconds: float) -> bool:
    """Wait until other programs have been idle for a second. Return False if the limit passes first."""
    deadline = time.perf_counter() + limit_seconds
    while time.perf_counter() < deadline:
        load = Load()
        time.sleep(1.0)
        share = load.others()
        if share is None or share < IDLE_SHARE:
            return True
    return False


def facts(threads: int) -> dict[str, Any]:
    """Describe the machine for a reader, without its name."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": threads,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def around(before: Probe, after: Probe) -> dict[str, float]:
    """Return the mean of two probes."""
    return {name: round((value + asdict(after)[name]) / 2, 1) for name, value in asdict(before).items()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _busy_seconds() -> float | None:
    """Return the busy seconds of all processors since the system started, with stolen time."""
    if not _STAT.exists():
        return None
    user, nice, system, _idle, _waiting, *rest = map(int, _STAT.read_text(encoding="ascii").split("\n")[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
