"""Decorators that compile Python functions with numba.

Results must be reproducible to the last bit, so the compiler may not reorder floating-point operations.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

NO_REFERENCE_COUNTING: Any = {"_nrt": False}
"""Turns numba's reference counting off. Compiled functions never own arrays, and counting took half of their time."""
STRICT_ARITHMETIC: Any = NO_REFERENCE_COUNTING | {"fastmath": False}
"""Options for `overload`: the arithmetic of `jit_compile`, even when called from `jit_without_nan` functions."""


def jit_without_nan(function: Function) -> Function:
    """Compile like `jit_compile`, and let the compiler assume that no number is NaN.

    Results for NaN are undefined, so callers must keep NaN out.
    """
    return _compile(function, {"nnan"})


def jit_compile(function: Function) -> Function:
    """Compile a function at its first call.

    The function releases Python's lock, so other threads run at the same time.

    Floating-point operations keep their order and rounding. For sums, which need reordering to be fast, `vectors` has
    explicit instructions. If the compiler could reorder operations, results would depend on memory addresses. It
    compiles loops twice, for arrays that are close to each other and for others.
    """
    return _compile(function, set())


def _compile(function: Function, float_rules: set[str]) -> Function:
    made: Any = numba.njit(nogil=True, error_model="numpy", fastmath=float_rules, **NO_REFERENCE_COUNTING)(function)
    return cast(Function, made)
