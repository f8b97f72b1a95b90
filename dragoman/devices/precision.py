"""The precision of a search on a device. CPUs are known without torch if there is machine code for them."""

from dragoman.errors import ConfigError, require_torch
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
    if name not in supported and not (on_cpu and _compiles_integers()):
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
    return {name for name, is_there in kinds.items() if is_there} | (
        {"bfloat16"} if _BFLOAT16 & processor.FEATURES else set()
    )


def _compiles_integers() -> bool:
    """Whether machine code can multiply integers here, even if it is not fast."""
    return tiles.HAS_FMA and library.is_available()


def precisions_of_torch(device: str) -> set[str]:
    """The fast precisions of torch on a device. Sums of bytes saturate on older CPUs, which have no int8."""
    require_torch("translating on this processor without numba" if device == "cpu" else f"the device {device}")
    import torch

    from dragoman.devices.device import multiplies_bfloat16

    found = {"bfloat16"} if multiplies_bfloat16(torch.device(device)) else set()
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)() if device == "cpu" else {}
    has_bytes = capabilities.get("avx512_vnni") or capabilities.get("amx_int8")
    return found | ({"int8"} if has_bytes and hasattr(torch.ops.onednn, "qlinear_pointwise") else set())
