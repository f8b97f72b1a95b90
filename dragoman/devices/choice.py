"""Choice of a device by name. On machines without a GPU it does not import torch, which takes seconds."""

import os
import sys

from dragoman.errors import has_torch, require_torch

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
    if sys.modules.get("torch") is not None:
        return True
    return has_torch() and (sys.platform != "linux" or any(map(os.path.exists, _DRIVER_FILES)))
