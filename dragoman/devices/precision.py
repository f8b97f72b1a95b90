"""The device of a name, and the precision of a search on it. CPUs are known without torch if they have machine code.

Choice of a device by name. On machines without a GPU it does not import torch, which takes seconds.
"""

import os
import sys

from dragoman.errors import ConfigError, has_torch, require_torch
from dragoman.kernels import library, processor, tiles

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
    if name not in supported and not (on_cpu and tiles.HAS_FMA and library.is_available()):
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
    kinds = {"int8": tiles.HAS_BYTE_PRODUCTS, "int16": tiles.HAS_SHORT_PRODUCTS}
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
