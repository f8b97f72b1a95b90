"""Operations on single numbers for compiled functions that numba cannot express: bfloat16, exp2, selection.

Loops over these operations vectorize. Python's `max` and `if` would prevent that, so `maximum`, `at_least` and `select`
replace them. `array_at` views memory at an address as an array, and `norm_statistics` is the core of layer norm.
"""

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from dragoman.kernels import llvm
from dragoman.kernels.jit import jit_compile
from dragoman.kernels.llvm import instruction
from dragoman.kernels.vectors import sum_of, sum_of_squares


@instruction(types.float32)
def maximum(builder: Any, one: Any, other: Any) -> Any:
    """The larger of two float32. If one is NaN, the result is the other.

    LLVM vectorizes a loop with this operation, but not one with Python's `max` or `if x > m` (6 against 51 ns for 128
    numbers, docs/log.md).
    """
    return llvm.call(builder, "maxnum", one, other, fastmath=("nnan", "nsz", "reassoc"))


@instruction(types.float32)
def at_least(builder: Any, one: Any, limit: Any) -> Any:
    """The larger of a float32 and a limit. NaN stays NaN."""
    return llvm.larger_of(builder, one, limit)


@instruction(types.float32)
def select(builder: Any, condition: Any, one: Any, other: Any) -> Any:
    """`one if condition else other` for float32, without a branch: both are computed."""
    return builder.select(condition, one, other)


@instruction(types.float32)
def exp2(builder: Any, x: Any) -> Any:
    """2 ** x for x below 128, with a relative error below 3e-7. For x below -126 the result is 2 ** -126."""
    return llvm.exp2_of(builder, x)


@intrinsic  # type: ignore[untyped-decorator]
def array_at(_typing: Any, address: Any, like: Any, shape: Any) -> Any:
    """View of the contiguous memory at an address as an array.

    `like` is any number of the element type, and `shape` is a tuple. The memory is neither owned nor checked.
    """
    made = types.Array(like, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, _, shape = arguments
        return llvm.array_value(context, builder, made, address, cgutils.unpack_tuple(builder, shape))

    return made(types.intp, like, shape), generate


@instruction(types.float32)
def load_number(builder: Any, stored: Any) -> Any:
    """Convert an array element to float32. A uint16 is taken as a bfloat16."""
    return llvm.widen(builder, stored)


@instruction(lambda value, array: array.dtype)
def _as_stored(builder: Any, value: Any, array: Any) -> Any:
    return llvm.narrow(builder, value, array.data.type.pointee)


@jit_compile
def store_number(array: Any, index: Any, value: Any) -> None:
    """Store a float32 in a vector of float32, or as bfloat16 in a vector of uint16."""
    array[index] = _as_stored(value, array)


@jit_compile
def norm_statistics(row: Any, epsilon: Any) -> Any:
    """Mean of a row and 1 / sqrt(variance + epsilon), the two statistics of layer norm (Ba et al. 2016)."""
    one = np.float32(1)
    share = one / np.float32(row.size)
    mean = sum_of(row) * share
    return mean, one / np.sqrt(sum_of_squares(row, mean) * share + np.float32(epsilon))
