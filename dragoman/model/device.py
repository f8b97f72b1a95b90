"""Which device computes, and in which precision."""

import torch

from dragoman.errors import ConfigError


def resolve_device(name: str) -> torch.device:
    """`auto` is cuda, else mps, else cpu, whichever is there first.

    Raises ConfigError where `name` is no device of this machine.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"`train.device` is {name!r}, which this machine does not have. Use auto, cpu, cuda or mps."
        ) from error
    return device


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """The type of matrix products: `auto` is bfloat16 where the processor multiplies in it, else float32."""
    if name == "auto":
        return torch.bfloat16 if _multiplies_bfloat16(device) else torch.float32
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _multiplies_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type == "cpu":
        capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))
    return False
