"""Instructions for compiled functions that compute VECTOR_WIDTH (16) numbers at once.

- `multiply_tile` computes one tile of a matrix product.
- Functions from `copy_vector` to `subtract_and_multiply` work on one line of exactly VECTOR_WIDTH numbers.
- Functions from `sum_of` to `write_powers` reduce vectors of any length. They add in a fixed order, so the result does
  not depend on memory addresses. The compiler cannot vectorize a plain sum in Python, because it must not reorder
  additions (`jit_compile`).

Numbers are float32 unless the docstring allows bfloat16, which is stored as uint16.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple

from dragoman.kernels import TILE_ROWS, VECTOR_WIDTH
from dragoman.kernels.llvm import (
    FLOAT,
    LONG,
    VECTOR_TYPE,
    VectorSlice,
    across,
    exp2_of,
    fma,
    instruction,
    lane_mask,
    pointer_to,
    read,
    splat,
    sum_over_vectors,
    vector,
    write,
)

_NUMBER = types.float32


@instruction
def multiply_tile(
    _typing: Any, left: Any, first: Any, row_step: Any, step: Any, right: Any, depth: Any, out: Any, start: Any
) -> Any:
    """Compute one tile of a matrix product, TILE_ROWS x VECTOR_WIDTH.

    out[start + r, 0, j] = sum over k < depth of left[first + r * row_step + k * step] * right[k, 0, j]

    for TILE_ROWS rows r and L = VECTOR_WIDTH columns j. `left` is a flat vector. With `row_step` 1 it is read as the
    transpose of a matrix. `right` (K, C, L) and `out` (R, C, L) are slices that start at the chunk of columns to
    compute. `depth` must be at least 1.
    """
    index = types.intp
    signature = types.void(left, index, index, index, right, index, out, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        def array(position: int) -> Any:
            return context.make_array(signature.args[position])(context, builder, arguments[position])

        def at(base: Any, offset: Any) -> Any:
            return builder.gep(builder.bitcast(base, ir.IntType(8).as_pointer()), [offset])

        def loaded(base: Any, of: Any) -> Any:
            return builder.load(builder.bitcast(base, of.as_pointer()), align=4)

        left, right, out = (array(position) for position in (0, 4, 6))
        first, row_step, step, depth, start = (arguments[position] for position in (1, 2, 3, 5, 7))
        four = ir.Constant(LONG, 4)
        corner = at(left.data, builder.mul(first, four))
        rows = [
            at(corner, builder.mul(builder.mul(row_step, four), ir.Constant(LONG, row))) for row in range(TILE_ROWS)
        ]
        right_step, out_step = (cgutils.unpack_tuple(builder, each.strides)[0] for each in (right, out))
        add_product = fma(builder)

        before, loop, after = builder.block, builder.append_basic_block("depth"), builder.append_basic_block("sums")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(LONG)
        k.add_incoming(ir.Constant(LONG, 0), before)
        sums = [builder.phi(VECTOR_TYPE) for _ in range(TILE_ROWS)]
        line = loaded(at(right.data, builder.mul(k, right_step)), VECTOR_TYPE)
        offset = builder.mul(builder.mul(k, step), four)
        for row, total in zip(rows, sums, strict=True):
            factor = splat(builder, loaded(at(row, offset), FLOAT))
            total.add_incoming(ir.Constant(VECTOR_TYPE, [0.0] * VECTOR_WIDTH), before)
            total.add_incoming(builder.call(add_product, [factor, line, total]), loop)
        following = builder.add(k, ir.Constant(LONG, 1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

        builder.position_at_end(after)
        for row, total in enumerate(sums):
            place = at(out.data, builder.mul(out_step, builder.add(start, ir.Constant(LONG, row))))
            builder.store(total.incomings[1][0], builder.bitcast(place, VECTOR_TYPE.as_pointer()), align=4)

    return signature, generate


@instruction
def copy_vector(_typing: Any, source: Any, factor: Any, target: Any) -> Any:
    """target = factor * source for one line. Either array may have bfloat16."""
    signature = types.void(source, _NUMBER, target)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        source, target = (pointer_to(context, builder, signature, arguments, position) for position in (0, 2))
        write(builder, builder.fmul(read(builder, source), splat(builder, arguments[1])), target)

    return signature, generate


@instruction
def max_of_vector(_typing: Any, line: Any, count: Any) -> Any:
    """Maximum of the first `count` numbers of a line, or -3e38 if `count` is 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = read(builder, pointer_to(context, builder, signature, arguments, 0))
        least = ir.Constant(VECTOR_TYPE, [-3e38] * VECTOR_WIDTH)
        return across(builder, "fmax", builder.select(lane_mask(builder, arguments[1]), numbers, least))

    return _NUMBER(line, types.int32), generate


@instruction
def exp2_of_vector(_typing: Any, line: Any, count: Any, top: Any) -> Any:
    """Replace the first `count` numbers of a line by 2 ** (number - top) and the others by 0. Returns the sum.

    The powers are as exact as those of `arithmetic.exp2`.
    """
    signature = _NUMBER(line, types.int32, _NUMBER)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = pointer_to(context, builder, signature, arguments, 0)
        power = exp2_of(builder, builder.fsub(read(builder, place), splat(builder, arguments[2])))
        power = builder.select(lane_mask(builder, arguments[1]), power, ir.Constant(VECTOR_TYPE, [0.0] * VECTOR_WIDTH))
        write(builder, power, place)
        return across(builder, "fadd", power)

    return signature, generate


@instruction
def dot_of_vectors(_typing: Any, one: Any, other: Any) -> Any:
    """Dot product of two lines."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (read(builder, pointer_to(context, builder, signature, arguments, n)) for n in range(2))
        return across(builder, "fadd", builder.fmul(one, other))

    return _NUMBER(one, other), generate


@instruction
def subtract_and_multiply(_typing: Any, line: Any, less: Any, factors: Any) -> Any:
    """line = (line - less) * factors, in place, for one line."""
    signature = types.void(line, _NUMBER, factors)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        line, factors = (pointer_to(context, builder, signature, arguments, n) for n in (0, 2))
        less = builder.fsub(read(builder, line), splat(builder, arguments[1]))
        write(builder, builder.fmul(less, read(builder, factors)), line)

    return signature, generate


@instruction
def sum_of(_typing: Any, values: Any) -> Any:
    """Sum of a vector of float32 or bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = vector(context, builder, signature, arguments, 0)

        def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
            return [builder.fadd(totals[0], line.read(place))]

        return sum_over_vectors(builder, size, step, 1)[0]

    return _NUMBER(values), generate


@instruction
def sum_of_squares(_typing: Any, values: Any, mean: Any) -> Any:
    """Sum of (value - mean) ** 2 over a vector of float32 or bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = vector(context, builder, signature, arguments, 0)
        middle = splat(builder, arguments[1])

        def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
            off = builder.fsub(line.read(place), middle)
            return [builder.call(fma(builder), [off, off, totals[0]])]

        return sum_over_vectors(builder, size, step, 1)[0]

    return _NUMBER(values, _NUMBER), generate


@instruction
def sums_of_gradients(_typing: Any, grads: Any, gains: Any, values: Any, mean: Any, inverse: Any) -> Any:
    """Sums of grad * gain and of grad * gain * (value - mean) * inverse, for the gradient of layer norm.

    The three vectors have the same size and may have float32 or bfloat16.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = [pointer_to(context, builder, signature, arguments, n) for n in range(3)]
        size = vector(context, builder, signature, arguments, 0)[1]
        middle, factor = (splat(builder, arguments[n]) for n in (3, 4))

        def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
            grad, gain, value = (line.read(place) for place in places)
            scaled, normed = builder.fmul(grad, gain), builder.fmul(builder.fsub(value, middle), factor)
            return [builder.fadd(totals[0], scaled), builder.call(fma(builder), [scaled, normed, totals[1]])]

        return context.make_tuple(builder, signature.return_type, sum_over_vectors(builder, size, step, 2))

    return UniTuple(_NUMBER, 2)(grads, gains, values, _NUMBER, _NUMBER), generate


@instruction
def sum_of_powers(_typing: Any, values: Any, shift: Any) -> Any:
    """Sum of 2 ** (value - shift) over a vector, each power as exact as `arithmetic.exp2`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = vector(context, builder, signature, arguments, 0)
        less = splat(builder, arguments[1])

        def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
            return [builder.fadd(totals[0], exp2_of(builder, builder.fsub(line.read(place), less)))]

        return sum_over_vectors(builder, size, step, 1)[0]

    return _NUMBER(values, _NUMBER), generate


@instruction
def write_powers(_typing: Any, values: Any) -> Any:
    """Replace each value by 2 ** value and return the sum of the powers before they are rounded to bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = vector(context, builder, signature, arguments, 0)

        def step(line: VectorSlice, totals: list[Any]) -> list[Any]:
            powers = exp2_of(builder, line.read(place))
            line.write(powers, place)
            return [builder.fadd(totals[0], powers)]

        return sum_over_vectors(builder, size, step, 1)[0]

    return _NUMBER(values), generate
