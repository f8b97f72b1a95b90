"""Instructions for compiled functions that compute VECTOR_WIDTH (16) numbers at once.

- `multiply_tile` computes one tile of a matrix product.
- Functions from `copy_vector` to `subtract_and_multiply` work on one line of exactly VECTOR_WIDTH numbers.
- Functions from `maximum` on work on single numbers.
- Functions from `sum_of` to `write_powers` reduce vectors of any length. They add in a fixed order, so the result does
  not depend on memory addresses. The compiler cannot vectorize a plain sum in Python, because it must not reorder
  additions (`jit_compile`).

Numbers are float32 unless the docstring allows bfloat16, which is stored as uint16.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

from dragoman.kernels import llvm, processor
from dragoman.kernels.jit import jit_compile
from dragoman.kernels.llvm import VECTOR_TYPE, VectorSlice, instruction, read, splat, sum_over_vectors, write


@instruction(types.void)
def multiply_tile(
    builder: Any, left: Any, first: Any, row_step: Any, step: Any, right: Any, depth: Any, out: Any, start: Any
) -> None:
    """Compute one tile of a matrix product, TILE_ROWS x VECTOR_WIDTH.

    out[start + r, 0, j] = sum over k < depth of left[first + r * row_step + k * step] * right[k, 0, j]

    for TILE_ROWS rows r and L = VECTOR_WIDTH columns j. `left` is a flat vector. With `row_step` 1 it is read as the
    transpose of a matrix. `right` (K, C, L) and `out` (R, C, L) are slices that start at the chunk of columns to
    compute. `depth` must be at least 1.
    """

    def at(base: Any, offset: Any) -> Any:
        return builder.gep(builder.bitcast(base, ir.IntType(8).as_pointer()), [offset])

    def loaded(base: Any, of: Any) -> Any:
        return builder.load(builder.bitcast(base, of.as_pointer()), align=4)

    four = ir.Constant(llvm.LONG, 4)
    corner = at(left.data, builder.mul(first, four))
    row_bytes = builder.mul(row_step, four)
    rows = [at(corner, builder.mul(row_bytes, ir.Constant(llvm.LONG, row))) for row in range(processor.TILE_ROWS)]
    right_step, out_step = (cgutils.unpack_tuple(builder, each.strides)[0] for each in (right, out))

    loop = llvm.CountedLoop(builder)
    sums = [loop.variable(llvm.constant(VECTOR_TYPE, 0.0)) for _ in rows]
    line = loaded(at(right.data, builder.mul(loop.counter, right_step)), VECTOR_TYPE)
    offset = builder.mul(builder.mul(loop.counter, step), four)
    factors = (splat(builder, loaded(at(row, offset), llvm.FLOAT)) for row in rows)
    totals = [llvm.call(builder, "fma", factor, line, total) for factor, total in zip(factors, sums, strict=True)]
    loop.end(depth, zip(sums, totals, strict=True))

    for row, total in enumerate(totals):
        place = at(out.data, builder.mul(out_step, builder.add(start, ir.Constant(llvm.LONG, row))))
        builder.store(total, builder.bitcast(place, VECTOR_TYPE.as_pointer()), align=4)


@instruction(types.void)
def copy_vector(builder: Any, source: Any, factor: Any, target: Any) -> None:
    """target = factor * source for one line. Either array may have bfloat16."""
    write(builder, builder.fmul(read(builder, source.data), splat(builder, factor)), target.data)


@instruction(types.float32)
def max_of_vector(builder: Any, line: Any, count: Any) -> Any:
    """Maximum of the first `count` numbers of a line, or -3e38 if `count` is 0."""
    least = llvm.constant(VECTOR_TYPE, -3e38)
    return llvm.across(builder, "fmax", builder.select(llvm.lane_mask(builder, count), read(builder, line.data), least))


@instruction(types.float32)
def exp2_of_vector(builder: Any, line: Any, count: Any, top: Any) -> Any:
    """Replace the first `count` numbers of a line by 2 ** (number - top) and the others by 0. Returns the sum.

    The powers are as exact as those of `exp2`.
    """
    power = llvm.exp2_of(builder, builder.fsub(read(builder, line.data), splat(builder, top)))
    power = builder.select(llvm.lane_mask(builder, count), power, llvm.constant(VECTOR_TYPE, 0.0))
    write(builder, power, line.data)
    return llvm.across(builder, "fadd", power)


@instruction(types.float32)
def dot_of_vectors(builder: Any, one: Any, other: Any) -> Any:
    """Dot product of two lines."""
    return llvm.across(builder, "fadd", builder.fmul(read(builder, one.data), read(builder, other.data)))


@instruction(types.void)
def subtract_and_multiply(builder: Any, line: Any, less: Any, factors: Any) -> None:
    """line = (line - less) * factors, in place, for one line."""
    difference = builder.fsub(read(builder, line.data), splat(builder, less))
    write(builder, builder.fmul(difference, read(builder, factors.data)), line.data)


@instruction(types.float32)
def sum_of(builder: Any, values: Any) -> Any:
    """Sum of a vector of float32 or bfloat16."""

    def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
        return [builder.fadd(totals[0], line.read(values))]

    return sum_over_vectors(builder, values, step)[0]


@instruction(types.float32)
def sum_of_squares(builder: Any, values: Any, mean: Any) -> Any:
    """Sum of (value - mean) ** 2 over a vector of float32 or bfloat16."""
    middle = splat(builder, mean)

    def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
        off = builder.fsub(line.read(values), middle)
        return [llvm.call(builder, "fma", off, off, totals[0])]

    return sum_over_vectors(builder, values, step)[0]


@instruction(UniTuple(types.float32, 2))
def sums_of_gradients(builder: Any, grads: Any, gains: Any, values: Any, mean: Any, inverse: Any) -> Any:
    """Sums of grad * gain and of grad * gain * (value - mean) * inverse, for the gradient of layer norm.

    The three vectors have the same size and may have float32 or bfloat16.
    """
    middle, factor = (splat(builder, number) for number in (mean, inverse))

    def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
        grad, gain, value = (line.read(array) for array in (grads, gains, values))
        scaled, normed = builder.fmul(grad, gain), builder.fmul(builder.fsub(value, middle), factor)
        return [builder.fadd(totals[0], scaled), llvm.call(builder, "fma", scaled, normed, totals[1])]

    return cgutils.pack_array(builder, sum_over_vectors(builder, grads, step, 2))


@instruction(types.float32)
def sum_of_powers(builder: Any, values: Any, shift: Any) -> Any:
    """Sum of 2 ** (value - shift) over a vector, each power as exact as `exp2`."""
    less = splat(builder, shift)

    def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
        return [builder.fadd(totals[0], llvm.exp2_of(builder, builder.fsub(line.read(values), less)))]

    return sum_over_vectors(builder, values, step)[0]


@instruction(types.float32)
def write_powers(builder: Any, values: Any) -> Any:
    """Replace each value by 2 ** value and return the sum of the powers before they are rounded to bfloat16."""

    def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
        powers = llvm.exp2_of(builder, line.read(values))
        line.write(powers, values)
        return [builder.fadd(totals[0], powers)]

    return sum_over_vectors(builder, values, step)[0]


@instruction(types.float32)
def maximum(builder: Any, one: Any, other: Any) -> Any:
    """The larger of two float32. If one is NaN, the result is the other.

    LLVM vectorizes a loop with this operation, but not one with Python's `max` or `if x > m` (6 against 51 ns for 128
    numbers, docs/log/2026.md).
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
