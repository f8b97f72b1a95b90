"""Which device computes, in which precision, and how its memory is kept."""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dragoman.errors import ConfigError

# mallopt's M_MMAP_THRESHOLD (32 MB is its maximum), M_TRIM_THRESHOLD (never) and M_TOP_PAD (64 MB).
_KEEP = ((-3, 32 << 20), (-1, 2**31 - 1), (-2, 64 << 20))


@contextlib.contextmanager
def build_without_values() -> Iterator[None]:
    """Modules made while it lasts have shapes and types, but no values and no memory: torch's meta device.

    Nothing initialises them either: drawing values that are not there takes torch a second, in which it imports its
    whole compiler.
    """
    with torch.device("meta"), _NotInitialised():
        yield


class _NotInitialised(TorchFunctionMode):
    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def resolve_device(name: str, setting: str = "--device") -> torch.device:
    """`auto` is cuda, else mps, else cpu, whichever is there first.

    Raises ConfigError where `name`, the value of `setting`, is no device of this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda":
            # Nothing is put there to try it: of several processes each would take memory of the first GPU.
            there = torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
        else:
            there = torch.empty(1, device=device).device.type != "meta"
    except (RuntimeError, AssertionError, NotImplementedError):
        there = False
    if not there:
        raise ConfigError(f"`{setting}` is {name!r}, which this machine does not have. Use auto or cpu.")
    if device.type == "cuda":
        # torch asks cuDNN first for attention on newer GPUs, which makes a plan for every new shape, some tenths of a
        # second each; batches of text come in thousands of shapes. Its other ways need no plan.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def sum_type(device: torch.device) -> torch.dtype:
    """What sums are kept in: float64 where the device has it, which Apple's has not."""
    return torch.float32 if device.type == "mps" else torch.float64


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """The type of matrix products: `auto` is bfloat16 where the processor multiplies in it, else float32."""
    if name == "auto":
        return torch.bfloat16 if multiplies_bfloat16(device) else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether it has instructions for that; without, such a product takes some hundred times as long as in float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))
    return False


def keep_freed_memory() -> None:
    """Tells the C library (glibc only; elsewhere nothing happens) to keep what is freed for the next allocation.

    Steps allocate and free the same hundreds of megabytes; giving them back to the system and clearing them anew takes
    about a quarter of a small model's training time, and a tenth of its decoding time. The peak of memory stays what it
    was.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        allocator = ctypes.CDLL(None)
        for parameter, value in _KEEP:
            allocator.mallopt(parameter, value)
