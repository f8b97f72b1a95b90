"""Instructions of the compiled search, written as LLVM code because numba cannot express them.

- `multiply` computes one tile of a matrix product, in float32, int16 or int8. It is most of the search's time. The tile
  stays in registers and reaches the rate of oneDNN's large products without the 35 us that a call of oneDNN costs
  (200 billion int8 and 52 billion float32 multiply-adds per second on one core, docs/log.md).
- `dot` and `weighted_sum` are the two products of attention, 16 (HEAD_WIDTH_MULTIPLE) numbers at a time.
- `keep` copies keys and values into the cache, and `fetch_ahead` prefetches them.

`dot`, `weighted_sum` and `keep` take float32, or float16 stored as uint16.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from dragoman.kernels.llvm import across, fma, instruction, splat
from dragoman.kernels.tiles import (
    HAS_BYTE_PRODUCTS,
    HAS_SHORT_PRODUCTS,
    HEAD_WIDTH_MULTIPLE,
    PRODUCT_COLUMNS,
    PRODUCT_ROWS,
    REGISTER_LANES,
    VECTORS,
    WIDE_REGISTER_LANES,
)

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_FLOAT = ir.FloatType()
_LARGEST_HALF = 65504.0
_SOME = ir.VectorType(_FLOAT, HEAD_WIDTH_MULTIPLE)


@instruction
def multiply(
    _typing: Any,
    inputs: Any,
    scales: Any,
    row: Any,
    panels: Any,
    correction: Any,
    scale: Any,
    bias: Any,
    panel: Any,
    out: Any,
    out_row: Any,
    out_column: Any,
) -> Any:
    """Write one tile of PRODUCT_ROWS x PRODUCT_COLUMNS: rows of the inputs times one panel of the weights.

    float32: out = inputs @ weights + bias, summed in the order of depth. int8 (uint8 inputs) and int16:
    out = (inputs @ weights - correction) * input scale * weight scale + bias, summed exactly in int32.

    Parameters
    ----------
    inputs
        (R, depth) from `row` on, with one of `scales` (R,) for each row.
    panels
        (panels, depth * PRODUCT_COLUMNS). A panel has, for each step of depth, 32 bits of each of its columns: one
        float32, two int16 or four int8. `inference/compiled/weights.py` packs it.
    correction, scale, bias
        One number for each column.
    out
        float32, written at `out_row` and `out_column`.
    """
    index = types.intp
    signature = types.void(inputs, scales, index, panels, correction, scale, bias, index, out, index, index)
    return signature, _tile_code(panels.dtype.bitwidth)


def _tile_code(bits: int) -> Callable[..., Any]:
    """Generator of the tile's code for weights of `bits` bits each. Every lane multiplies 32 bits at once."""
    of_integers = bits < 32
    number = _INT if of_integers else _FLOAT
    vector, floats = ir.VectorType(number, REGISTER_LANES), ir.VectorType(_FLOAT, REGISTER_LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        def array(position: int) -> Any:
            return context.make_array(signature.args[position])(context, builder, arguments[position])

        def stride(of: Any) -> Any:
            return cgutils.unpack_tuple(builder, of.strides)[0]

        def at(base: Any, *offsets: Any) -> Any:
            base = builder.bitcast(base, _BYTE.as_pointer())
            for offset in offsets:
                base = builder.gep(base, [offset])
            return base

        def loaded(base: Any, of: Any) -> Any:
            return builder.load(builder.bitcast(base, of.as_pointer()), align=1 if of_integers else 4)

        inputs, scales, panels, correction, scale, bias, out = (array(n) for n in (0, 1, 3, 4, 5, 6, 8))
        row, panel, out_row, out_column = (arguments[n] for n in (2, 7, 9, 10))
        depth = cgutils.unpack_tuple(builder, inputs.shape)[1]
        steps = builder.udiv(depth, _long(32 // bits))
        multiply_add = fma(builder, floats)
        rows = [at(inputs.data, builder.mul(stride(inputs), builder.add(row, _long(r)))) for r in range(PRODUCT_ROWS)]
        weights = at(panels.data, builder.mul(stride(panels), panel))

        before, loop, after = builder.block, builder.append_basic_block("depth"), builder.append_basic_block("sums")
        builder.branch(loop)
        builder.position_at_end(loop)
        step = builder.phi(_LONG)
        step.add_incoming(_long(0), before)
        sums = [builder.phi(vector) for _ in range(PRODUCT_ROWS * VECTORS)]
        here = at(weights, builder.mul(step, _long(4 * PRODUCT_COLUMNS)))
        columns = [loaded(at(here, _long(4 * REGISTER_LANES * c)), vector) for c in range(VECTORS)]
        totals = []
        for r in range(PRODUCT_ROWS):
            one = splat(builder, loaded(at(rows[r], builder.mul(step, _long(4))), number), vector)
            add = partial(ADD_PRODUCTS[bits], builder)
            totals += [add(sums[r * VECTORS + c], one, columns[c]) for c in range(VECTORS)]
        next_step = builder.add(step, _long(1))
        step.add_incoming(next_step, loop)
        for total, following in zip(sums, totals, strict=True):
            total.add_incoming(ir.Constant(vector, [0 if of_integers else 0.0] * REGISTER_LANES), before)
            total.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", next_step, steps), loop, after)

        builder.position_at_end(after)
        first = builder.mul(panel, _long(4 * PRODUCT_COLUMNS))
        targets = at(out.data, builder.mul(stride(out), out_row), builder.mul(out_column, _long(4)))
        row_scales = at(scales.data, builder.mul(row, _long(4)))
        for c in range(VECTORS):
            offset = builder.add(first, _long(4 * REGISTER_LANES * c))
            biases = loaded(at(bias.data, offset), floats)
            for r in range(PRODUCT_ROWS):
                result = totals[r * VECTORS + c]
                if of_integers:
                    less = builder.sub(result, loaded(at(correction.data, offset), vector))
                    row_scale = splat(builder, loaded(at(row_scales, _long(4 * r)), _FLOAT), floats)
                    factor = builder.fmul(loaded(at(scale.data, offset), floats), row_scale)
                    result = builder.call(multiply_add, [builder.sitofp(less, floats), factor, biases])
                else:
                    result = builder.fadd(result, biases)
                place = at(targets, builder.mul(stride(out), _long(r)), _long(4 * REGISTER_LANES * c))
                builder.store(result, builder.bitcast(place, floats.as_pointer()), align=4)

    return generate


def _add_byte_products(builder: Any, total: Any, one: Any, other: Any) -> Any:
    of = ir.FunctionType(total.type, [total.type] * 3)
    function = cgutils.get_or_insert_function(builder.module, of, f"llvm.x86.avx512.vpdpbusd.{32 * REGISTER_LANES}")
    return builder.call(function, [total, one, other])


def add_split_bytes(builder: Any, total: Any, one: Any, other: Any) -> Any:
    """Add products of bytes without VNNI: even and odd bytes as 16-bit numbers.

    `vpmaddubsw` would need fewer instructions, but it saturates at 16 bits.
    """
    shorts = ir.VectorType(_SHORT, 2 * REGISTER_LANES)
    eight, low_byte = (ir.Constant(shorts, [value] * shorts.count) for value in (8, 255))
    unsigned, signed = (builder.bitcast(factor, shorts) for factor in (one, other))
    even = builder.and_(unsigned, low_byte), builder.ashr(builder.shl(signed, eight), eight)
    odd = builder.lshr(unsigned, eight), builder.ashr(signed, eight)
    for factors in (even, odd):
        total = ADD_PRODUCTS[16](builder, total, *(builder.bitcast(factor, total.type) for factor in factors))
    return total


def _add_short_products(builder: Any, total: Any, one: Any, other: Any) -> Any:
    shorts = ir.VectorType(_SHORT, 2 * REGISTER_LANES)
    name = "llvm.x86.avx512.pmaddw.d.512" if REGISTER_LANES == WIDE_REGISTER_LANES else "llvm.x86.avx2.pmadd.wd"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(total.type, [shorts] * 2), name)
    return builder.add(total, builder.call(function, [builder.bitcast(factor, shorts) for factor in (one, other)]))


def add_widened_shorts(builder: Any, total: Any, one: Any, other: Any) -> Any:
    """Add products of 16-bit numbers on any processor: even and odd numbers as 32-bit numbers."""
    sixteen = ir.Constant(total.type, [16] * REGISTER_LANES)
    even = [builder.ashr(builder.shl(factor, sixteen), sixteen) for factor in (one, other)]
    odd = [builder.ashr(factor, sixteen) for factor in (one, other)]
    return builder.add(total, builder.add(builder.mul(*even), builder.mul(*odd)))


def _add_float_products(builder: Any, total: Any, one: Any, other: Any) -> Any:
    return builder.call(fma(builder, total.type), [one, other, total])


ADD_PRODUCTS = {
    8: _add_byte_products if HAS_BYTE_PRODUCTS else add_split_bytes,
    16: _add_short_products if HAS_SHORT_PRODUCTS else add_widened_shorts,
    32: _add_float_products,
}
"""Code for this processor, by bits of a weight: builder, sums, 32 bits of a row in each lane and of each column."""


@instruction
def dot(_typing: Any, one: Any, first: Any, other: Any, second: Any, size: Any) -> Any:
    """Sum of one[first + k] * other[second + k] for k < size, a multiple of HEAD_WIDTH_MULTIPLE."""
    signature = types.float32(one, types.intp, other, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bases = [_from(context, builder, signature.args[i], *arguments[i : i + 2]) for i in (0, 2)]
        before, step, after = _loop(builder)
        total = builder.phi(_SOME)
        following = builder.call(fma(builder), [*(_load(builder, base, step) for base in bases), total])
        total.add_incoming(ir.Constant(_SOME, [0.0] * HEAD_WIDTH_MULTIPLE), before)
        total.add_incoming(following, builder.block)
        _end_loop(builder, step, arguments[4], after)
        return across(builder, "fadd", following)

    return signature, generate


@instruction
def weighted_sum(
    _typing: Any,
    out: Any,
    first: Any,
    factors: Any,
    second: Any,
    values: Any,
    places: Any,
    shift: Any,
    count: Any,
) -> Any:
    """out[first + i] = sum over k < count of factors[second + k] * values[places[k] + shift + i].

    For i < HEAD_WIDTH_MULTIPLE. The sum is in the order of k.
    """
    index = types.intp
    signature = types.void(out, index, factors, index, values, places, index, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        out, factors = (_from(context, builder, signature.args[i], *arguments[i : i + 2]) for i in (0, 2))
        values = _from(context, builder, signature.args[4], arguments[4], arguments[6])
        places = _from(context, builder, signature.args[5], arguments[5], _long(0))
        before, step, after = _loop(builder)
        total = builder.phi(_SOME)
        factor = splat(builder, builder.load(builder.gep(factors, [step])), _SOME)
        numbers = _load(builder, values, builder.load(builder.gep(places, [step])))
        following = builder.call(fma(builder), [factor, numbers, total])
        total.add_incoming(ir.Constant(_SOME, [0.0] * HEAD_WIDTH_MULTIPLE), before)
        total.add_incoming(following, builder.block)
        _end_loop(builder, step, arguments[7], after, by=1)
        _store(builder, following, out, _long(0))

    return signature, generate


@instruction
def keep(_typing: Any, out: Any, first: Any, values: Any, second: Any, size: Any) -> Any:
    """out[first + k] = values[second + k] for k < size, a multiple of HEAD_WIDTH_MULTIPLE.

    Numbers outside the range of float16 become the nearest number in it if `out` has float16.
    """
    signature = types.void(out, types.intp, values, types.intp, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        out, values = (_from(context, builder, signature.args[i], *arguments[i : i + 2]) for i in (0, 2))
        _, step, after = _loop(builder)
        _store(builder, _load(builder, values, step), out, step)
        _end_loop(builder, step, arguments[4], after)

    return signature, generate


@instruction
def fetch_ahead(_typing: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of an element, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        place = builder.bitcast(_from(context, builder, signature.args[0], *arguments), _BYTE.as_pointer())
        function = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT, _INT, _INT])
        prefetch = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
        read, soon, data = (ir.Constant(_INT, value) for value in (0, 3, 1))
        builder.call(prefetch, [place, read, soon, data])

    return types.void(array, types.intp), generate


def _long(value: int) -> Any:
    return ir.Constant(_LONG, value)


def _from(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The address of the element at `index`."""
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def _load(builder: Any, base: Any, step: Any) -> Any:
    """HEAD_WIDTH_MULTIPLE numbers from an address, as float32."""
    halves = base.type.pointee == _SHORT
    stored = ir.VectorType(ir.HalfType(), HEAD_WIDTH_MULTIPLE) if halves else _SOME
    place = builder.bitcast(builder.gep(base, [step]), stored.as_pointer())
    numbers = builder.load(place, align=2 if halves else 4)
    return builder.fpext(numbers, _SOME) if halves else numbers


def _store(builder: Any, numbers: Any, base: Any, step: Any) -> None:
    """Store HEAD_WIDTH_MULTIPLE float32, clamped to the range of float16 if the array has float16."""
    halves = base.type.pointee == _SHORT
    if halves:
        for name, limit in (("minnum", _LARGEST_HALF), ("maxnum", -_LARGEST_HALF)):
            function = ir.FunctionType(_SOME, [_SOME] * 2)
            clamp = cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.v16f32")
            numbers = builder.call(clamp, [numbers, ir.Constant(_SOME, [limit] * HEAD_WIDTH_MULTIPLE)])
        numbers = builder.fptrunc(numbers, ir.VectorType(ir.HalfType(), HEAD_WIDTH_MULTIPLE))
    place = builder.bitcast(builder.gep(base, [step]), numbers.type.as_pointer())
    builder.store(numbers, place, align=2 if halves else 4)


def _loop(builder: Any) -> tuple[Any, Any, Any]:
    """Start a loop. Returns the block before it, its counter and the block after it."""
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(_LONG)
    step.add_incoming(_long(0), before)
    return before, step, after


def _end_loop(builder: Any, step: Any, size: Any, after: Any, by: int = HEAD_WIDTH_MULTIPLE) -> None:
    """End the loop of `_loop`, which repeats while its counter, increased by `by`, is below `size`."""
    following = builder.add(step, _long(by))
    step.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, size), builder.block, after)
    builder.position_at_end(after)
