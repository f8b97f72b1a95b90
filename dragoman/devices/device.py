"""Torch devices: choosing one, and its precisions."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dragoman.errors import ConfigError


@contextlib.contextmanager
def build_without_values() -> Iterator[None]:
    """Context in which new modules have shapes and types, but no values and no memory (torch's meta device).

    Initializers are skipped. On the meta device they would make torch import its whole compiler, which takes a second.
    """
    with torch.device("meta"), _NotInitialised():
        yield


class _NotInitialised(TorchFunctionMode):
    """Skip the functions of `torch.nn.init`."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def resolve_device(name: str, setting: str = "--device") -> torch.device:
    """The torch device called `name`. "auto" selects the first available of cuda, mps and cpu.

    Raises ConfigError, which names `setting`, if this machine does not have the device. On GPUs, cuDNN attention is
    turned off for the whole process.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda":
            # Do not allocate a test tensor: each of several processes would take memory on the first GPU.
            there = torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
        else:
            there = torch.empty(1, device=device).device.type != "meta"
    except (RuntimeError, AssertionError, NotImplementedError):
        there = False
    if not there:
        raise ConfigError(f"`{setting}` is {name!r}, which this machine does not have. Use auto or cpu.")
    if device.type == "cuda":
        # On newer GPUs torch prefers cuDNN attention, which compiles a plan of some tenths of a second for every new
        # shape, and batches of text come in thousands of shapes. The other implementations need no plan.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def sum_type(device: torch.device) -> torch.dtype:
    """The type for sums: float64, or float32 on Apple GPUs, which do not have float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """The type of matrix products. "auto" is bfloat16 if the processor multiplies in bfloat16, else float32."""
    if name == "auto":
        return torch.bfloat16 if multiplies_bfloat16(device) else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether the device has bfloat16 instructions. Without them a CPU takes about a hundred times as long."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))
    return False
