"""How Python functions become machine code here, and what the processor's registers hold."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from llvmlite import binding

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be taken in any order that does not change from call to call; infinities are meant.
_FLOAT_RULES = {"nnan", "nsz", "arcp", "contract", "reassoc"}
WITHOUT_COUNTING: Any = {"_nrt": False}
"""No array is made or kept here, so none is counted: counting took half of the time."""


def compiled(function: Function) -> Function:
    """Compiled at its first call, other Python threads run meanwhile; kept on disk wherever that can be written."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _FLOAT_RULES, **WITHOUT_COUNTING}
    try:
        compiled_function: Function = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # neither the package's folder nor the user's own can be written
        compiled_function = numba.njit(**settings)(function)
    return compiled_function


def _features() -> dict[str, bool]:
    if numba.config.CPU_NAME:  # compiled for another processor than this one
        return {name.strip("+"): True for name in (numba.config.CPU_FEATURES or "").split(",") if name[:1] == "+"}
    return dict(binding.get_host_cpu_features())


_FEATURES = _features()
MULTIPLIES_BYTES = _FEATURES.get("avx512vnni", False)
"""Whether `vpdpbusd` is there, which adds four products of bytes to each of 16 sums."""

_WIDE = _FEATURES.get("avx512f", False)
LANES = 16 if _WIDE else 8
"""Numbers of 32 bits in a register."""
VECTORS = 4 if _WIDE else 2
ROWS = 4
"""Rows of a tile: with `COLUMNS`, as many sums as registers hold beside what is multiplied."""
COLUMNS = VECTORS * LANES
"""Columns of a tile, and of a panel of packed weights."""
BYTES_AT_ONCE = 4
NUMBERS_AT_ONCE = 16
"""The width of an attention head is a multiple of this."""
