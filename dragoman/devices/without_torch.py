"""Device, precision, threads and memory of a search, chosen without importing torch, which takes seconds.

CPUs are known without torch if they have machine code. Numbers that only torch knows are used once torch is imported.
Before that, they are predicted.

Batches of a search run side by side, each in a Python thread on one torch thread, because torch releases Python's lock
while it computes. Two batches on two cores were 1.6 times as fast as one after the other (docs/log/2026.md). Two torch
threads inside every operation gain less, because the operations are small, and nothing if another process needs a core.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import ConfigError, has_torch, require_torch
from dragoman.kernels import library, processor

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
    for number in os.sched_getaffinity(0):
        core = str(number)
        with suppress(OSError):
            core = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text()
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


_BFLOAT16 = {"avx512bf16", "amx-bf16", "bf16"}
"""LLVM's names of the instruction sets that multiply in bfloat16."""


def resolve_inference_precision(name: str, device: object) -> str:
    """The precision that a search on `device` (a torch device or its name) uses for the setting `inference.precision`.

    "auto" is the fastest that the device supports, of int8, int16, bfloat16 and float32 in this order. On a CPU without
    bfloat16 instructions, "bfloat16" becomes float32, which is faster there and more exact. Machine code
    multiplies int8 and int16 on every processor with FMA. Raises ConfigError if the device does not support them.
    """
    if name == "float32":
        return name
    on_cpu = str(device).partition(":")[0] == "cpu"
    supported = _of_cpu() if on_cpu else precisions_of_torch(str(device))
    if name == "auto":
        return next((each for each in ("int8", "int16", "bfloat16") if each in supported), "float32")
    if name == "bfloat16":
        return name if not on_cpu or name in supported else "float32"
    # Machine code multiplies integers even on processors where that is not fast.
    if name not in supported and not (on_cpu and processor.HAS_FMA and library.is_available()):
        needed, others = {
            "int8": ("numba or a CPU with VNNI instructions", "auto, int16, bfloat16 or float32"),
            "int16": ("numba and an x86 CPU with AVX2", "auto, bfloat16 or float32"),
        }[name]
        found = "this CPU has none" if on_cpu and name == "int8" else f"the model is on {device}"
        raise ConfigError(f"`inference.precision` is {name}, which needs {needed}, but {found}. Use {others}.")
    return name


def _of_cpu() -> set[str]:
    """The precisions that are faster than float32 on this processor."""
    if not library.is_available():
        return precisions_of_torch("cpu")
    kinds = {"int8": processor.HAS_BYTE_PRODUCTS, "int16": processor.HAS_SHORT_PRODUCTS}
    found = {name for name, is_there in kinds.items() if is_there}
    return found | {"bfloat16"} if _BFLOAT16 & processor.FEATURES else found


def precisions_of_torch(device: str) -> set[str]:
    """The fast precisions of torch on a device. Sums of bytes saturate on older CPUs, which have no int8."""
    require_torch("translating on this processor without numba" if device == "cpu" else f"the device {device}")
    import torch

    from dragoman.devices.device import multiplies_bfloat16

    found = {"bfloat16"} if multiplies_bfloat16(torch.device(device)) else set()
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)() if device == "cpu" else {}
    has_bytes = capabilities.get("avx512_vnni") or capabilities.get("amx_int8")
    return found | ({"int8"} if has_bytes and hasattr(torch.ops.onednn, "qlinear_pointwise") else set())


# Files that the drivers of GPUs make: NVIDIA's, on Jetson and in WSL, and AMD's.
_DRIVER_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia", "/dev/nvmap", "/dev/dxg", "/dev/kfd")


def choose_device(name: str, setting: str = "--device") -> str:
    """The name of torch's device called `name`. "auto" selects the first available of cuda, mps and cpu.

    Raises ConfigError, which names `setting`, if this machine does not have the device, and MissingExtraError if torch
    is not installed.
    """
    if name == "cpu" or (name == "auto" and not _may_have_gpu()):
        return "cpu"
    require_torch(f"`{setting} {name}`")
    from dragoman.devices.device import resolve_device

    return str(resolve_device(name, setting))


def _may_have_gpu() -> bool:
    """Whether only torch can tell if there is a GPU that it can use."""
    may_see_one = sys.platform != "linux" or any(map(os.path.exists, _DRIVER_FILES))
    return sys.modules.get("torch") is not None or (has_torch() and may_see_one)


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
