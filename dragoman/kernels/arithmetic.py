"""Operations on single numbers for compiled functions that numba cannot express: bfloat16, exp2, fused multiply-add.

Loops over these operations vectorize. Python's `max` and `if` would prevent that, so `maximum`, `at_least` and `select`
replace them. `array_at` views memory at an address as an array, and `norm_statistics` is the core of layer norm.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import overload
from numba.np.arrayobj import populate_array

from dragoman.kernels.jit import STRICT_ARITHMETIC, jit_compile
from dragoman.kernels.llvm import EXP2_FACTORS, FLOAT, INT, LEAST_EXPONENT, instruction
from dragoman.kernels.vectors import sum_of, sum_of_squares

_SHORT = ir.IntType(16)
_NUMBER = types.float32
_P0, _P1, _P2, _P3, _P4, _P5 = EXP2_FACTORS


@instruction
def maximum(_typing: Any, one: Any, other: Any) -> Any:
    """The larger of two float32. If one is NaN, the result is the other.

    LLVM vectorizes a loop with this operation, but not one with Python's `max` or `if x > m` (6 against 51 ns for 128
    numbers, docs/log.md).
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        maximum = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(FLOAT, [FLOAT, FLOAT]), "llvm.maxnum.f32"
        )
        return builder.call(maximum, arguments, fastmath=("nnan", "nsz", "reassoc"))

    return _NUMBER(_NUMBER, _NUMBER), generate


@instruction
def at_least(_typing: Any, one: Any, limit: Any) -> Any:
    """The larger of a float32 and a limit. NaN stays NaN."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        one, limit = arguments
        return builder.select(builder.fcmp_ordered("<", one, limit), limit, one)

    return _NUMBER(_NUMBER, _NUMBER), generate


@instruction
def select(_typing: Any, condition: Any, one: Any, other: Any) -> Any:
    """`one if condition else other` for float32, without a branch: both are computed."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return _NUMBER(types.boolean, _NUMBER, _NUMBER), generate


@instruction
def round_to_integer(_typing: Any, one: Any) -> Any:
    """The nearest integer as float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        nearest = cgutils.get_or_insert_function(builder.module, ir.FunctionType(FLOAT, [FLOAT]), "llvm.rint.f32")
        return builder.call(nearest, arguments)

    return _NUMBER(_NUMBER), generate


@instruction
def float_of_bits(_typing: Any, bits: Any) -> Any:
    """The float32 with these 32 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], FLOAT)

    return _NUMBER(types.int32), generate


@instruction
def fused_multiply_add(_typing: Any, one: Any, other: Any, added: Any) -> Any:
    """one * other + added for float32, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(FLOAT, [FLOAT] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, function, "llvm.fma.f32"), arguments)

    return _NUMBER(_NUMBER, _NUMBER, _NUMBER), generate


@instruction
def from_bfloat16(_typing: Any, bits: Any) -> Any:
    """The float32 value of a bfloat16, given as its 16 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = builder.shl(builder.zext(arguments[0], INT), ir.Constant(INT, 16))
        return builder.bitcast(wide, FLOAT)

    return _NUMBER(types.uint16), generate


@instruction
def to_bfloat16(_typing: Any, number: Any) -> Any:
    """The 16 bits of the nearest bfloat16, rounded to even if halfway.

    NaN stays NaN if its lower 16 bits are zero. That is true for every NaN the hardware produces and every NaN
    converted from bfloat16.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], INT)
        odd = builder.and_(builder.lshr(bits, ir.Constant(INT, 16)), ir.Constant(INT, 1))
        up = builder.add(builder.add(bits, ir.Constant(INT, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(up, ir.Constant(INT, 16)), _SHORT)

    return types.uint16(_NUMBER), generate


@jit_compile
def exp2(x: Any) -> Any:
    """2 ** x for x below 128, with a relative error below 3e-7. For x below -126 the result is 2 ** -126."""
    x = at_least(x, LEAST_EXPONENT)
    whole = round_to_integer(x)
    x = x - whole
    power = fused_multiply_add(fused_multiply_add(_P5, x, _P4), x, _P3)
    power = fused_multiply_add(fused_multiply_add(fused_multiply_add(power, x, _P2), x, _P1), x, _P0)
    return power * float_of_bits(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))


@instruction
def array_at(_typing: Any, address: Any, like: Any, shape: Any) -> Any:
    """View of the contiguous memory at an address as an array.

    `like` is any number of the element type, and `shape` is a tuple. The memory is neither owned nor checked.
    """
    made = types.Array(like, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, _, shape = arguments
        sizes = cgutils.unpack_tuple(builder, shape)
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(like)))
        strides = [item]
        for size in reversed(sizes[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        array = context.make_array(made)(context, builder)
        data = builder.inttoptr(address, array.data.type)
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=item, meminfo=None)
        return array._getvalue()

    return made(types.intp, like, shape), generate


def load_number(stored: Any) -> Any:
    """Convert an array element to float32. A uint16 is taken as a bfloat16."""


@overload(load_number, jit_options=STRICT_ARITHMETIC)  # type: ignore[untyped-decorator]
def _number(stored: Any) -> Any:
    if stored == types.uint16:

        def widened(stored: Any) -> Any:
            return from_bfloat16(stored)

        return widened

    def itself(stored: Any) -> Any:
        return stored

    return itself


def store_number(array: Any, index: Any, value: Any) -> None:
    """Store a float32 in a vector of float32, or as bfloat16 in a vector of uint16."""


@overload(store_number, jit_options=STRICT_ARITHMETIC)  # type: ignore[untyped-decorator]
def _put(array: Any, index: Any, value: Any) -> Any:
    if array.dtype == types.uint16:

        def put_rounded(array: Any, index: Any, value: Any) -> None:
            array[index] = to_bfloat16(value)

        return put_rounded

    def put_as_it_is(array: Any, index: Any, value: Any) -> None:
        array[index] = value

    return put_as_it_is


@jit_compile
def norm_statistics(row: Any, epsilon: Any) -> Any:
    """Mean of a row and 1 / sqrt(variance + epsilon), the two statistics of layer norm (Ba et al. 2016)."""
    one = np.float32(1)
    share = one / np.float32(row.size)
    mean = sum_of(row) * share
    return mean, one / np.sqrt(sum_of_squares(row, mean) * share + np.float32(epsilon))
