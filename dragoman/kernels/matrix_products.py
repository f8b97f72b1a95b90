"""Instructions of the compiled search, written as LLVM code because numba cannot express them.

- `multiply` computes one tile of a matrix product, in float32, int16 or int8. It is most of the search's time. The tile
  stays in registers and reaches the rate of oneDNN's large products without the 35 us that a call of oneDNN costs
  (200 billion int8 and 52 billion float32 multiply-adds per second on one core, docs/log/2026.md).
- `dot` and `weighted_sum` are the two products of attention, 16 (HEAD_WIDTH_MULTIPLE) numbers at a time.
- `keep` copies keys and values into the cache, and `fetch_ahead` prefetches them.

`dot`, `weighted_sum` and `keep` take float32, or float16 stored as uint16.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from dragoman.kernels import llvm, processor
from dragoman.kernels.llvm import FLOAT, INT, LONG, SHORT, instruction, splat
from dragoman.kernels.processor import HEAD_WIDTH_MULTIPLE, PRODUCT_COLUMNS, PRODUCT_ROWS, REGISTER_LANES, VECTORS

_BYTE = ir.IntType(8)
_LARGEST_HALF = 65504.0
_SOME = ir.VectorType(FLOAT, HEAD_WIDTH_MULTIPLE)


@instruction(types.void)
def multiply(
    builder: Any,
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
) -> None:
    """Write one tile of PRODUCT_ROWS x PRODUCT_COLUMNS: rows of the inputs times one panel of the weights.

    float32: out = inputs @ weights + bias, summed in the order of depth. int8 (uint8 inputs) and int16:
    out = (inputs @ weights - correction) * input scale * weight scale + bias, summed exactly in int32. Every lane
    multiplies 32 bits at once.

    Parameters
    ----------
    inputs
        (R, depth) from `row` on, with one of `scales` (R,) for each row.
    panels
        (panels, depth * PRODUCT_COLUMNS). A panel has, for each step of depth, 32 bits of each of its columns: one
        float32, two int16 or four int8. `engines/compiled/weights.py` packs it.
    correction, scale, bias
        One number for each column.
    out
        float32, written at `out_row` and `out_column`.
    """
    stored = panels.data.type.pointee
    of_integers = isinstance(stored, ir.IntType)
    bits = stored.width if of_integers else 32
    number = INT if of_integers else FLOAT
    vector, floats = ir.VectorType(number, REGISTER_LANES), ir.VectorType(FLOAT, REGISTER_LANES)

    def stride(of: Any) -> Any:
        return cgutils.unpack_tuple(builder, of.strides)[0]

    def at(base: Any, *offsets: Any) -> Any:
        base = builder.bitcast(base, _BYTE.as_pointer())
        for offset in offsets:
            base = builder.gep(base, [offset])
        return base

    def loaded(base: Any, of: Any) -> Any:
        return builder.load(builder.bitcast(base, of.as_pointer()), align=1 if of_integers else 4)

    depth = cgutils.unpack_tuple(builder, inputs.shape)[1]
    rows = [at(inputs.data, builder.mul(stride(inputs), builder.add(row, _long(r)))) for r in range(PRODUCT_ROWS)]
    weights = at(panels.data, builder.mul(stride(panels), panel))

    loop = llvm.CountedLoop(builder)
    sums = [loop.variable(llvm.constant(vector, 0 if of_integers else 0.0)) for _ in range(PRODUCT_ROWS * VECTORS)]
    here = at(weights, builder.mul(loop.counter, _long(4 * PRODUCT_COLUMNS)))
    columns = [loaded(at(here, _long(4 * REGISTER_LANES * c)), vector) for c in range(VECTORS)]
    totals = []
    for r in range(PRODUCT_ROWS):
        one = splat(builder, loaded(at(rows[r], builder.mul(loop.counter, _long(4))), number), vector)
        totals += [ADD_PRODUCTS[bits](builder, sums[r * VECTORS + c], one, columns[c]) for c in range(VECTORS)]
    loop.end(builder.udiv(depth, _long(32 // bits)), zip(sums, totals, strict=True))

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
                row_scale = splat(builder, loaded(at(row_scales, _long(4 * r)), FLOAT), floats)
                factor = builder.fmul(loaded(at(scale.data, offset), floats), row_scale)
                result = llvm.call(builder, "fma", builder.sitofp(less, floats), factor, biases)
            else:
                result = builder.fadd(result, biases)
            place = at(targets, builder.mul(stride(out), _long(r)), _long(4 * REGISTER_LANES * c))
            builder.store(result, builder.bitcast(place, floats.as_pointer()), align=4)


def _add_byte_products(builder: Any, total: Any, one: Any, other: Any) -> Any:
    of = ir.FunctionType(total.type, [total.type] * 3)
    function = cgutils.get_or_insert_function(builder.module, of, f"llvm.x86.avx512.vpdpbusd.{32 * REGISTER_LANES}")
    return builder.call(function, [total, one, other])


def add_split_bytes(builder: Any, total: Any, one: Any, other: Any) -> Any:
    """Add products of bytes without VNNI: even and odd bytes as 16-bit numbers.

    `vpmaddubsw` would need fewer instructions, but it saturates at 16 bits.
    """
    shorts = ir.VectorType(SHORT, 2 * REGISTER_LANES)
    eight, low_byte = (llvm.constant(shorts, value) for value in (8, 255))
    unsigned, signed = (builder.bitcast(factor, shorts) for factor in (one, other))
    even = builder.and_(unsigned, low_byte), builder.ashr(builder.shl(signed, eight), eight)
    odd = builder.lshr(unsigned, eight), builder.ashr(signed, eight)
    for factors in (even, odd):
        total = ADD_PRODUCTS[16](builder, total, *(builder.bitcast(factor, total.type) for factor in factors))
    return total


def _add_short_products(builder: Any, total: Any, one: Any, other: Any) -> Any:
    shorts = ir.VectorType(SHORT, 2 * REGISTER_LANES)
    name = (
        "llvm.x86.avx512.pmaddw.d.512" if REGISTER_LANES == processor.WIDE_REGISTER_LANES else "llvm.x86.avx2.pmadd.wd"
    )
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(total.type, [shorts] * 2), name)
    return builder.add(total, builder.call(function, [builder.bitcast(factor, shorts) for factor in (one, other)]))


def add_widened_shorts(builder: Any, total: Any, one: Any, other: Any) -> Any:
    """Add products of 16-bit numbers on any processor: even and odd numbers as 32-bit numbers."""
    sixteen = llvm.constant(total.type, 16)
    even = [builder.ashr(builder.shl(factor, sixteen), sixteen) for factor in (one, other)]
    odd = [builder.ashr(factor, sixteen) for factor in (one, other)]
    return builder.add(total, builder.add(builder.mul(*even), builder.mul(*odd)))


def _add_float_products(builder: Any, total: Any, one: Any, other: Any) -> Any:
    return llvm.call(builder, "fma", one, other, total)


ADD_PRODUCTS = {
    8: _add_byte_products if processor.HAS_BYTE_PRODUCTS else add_split_bytes,
    16: _add_short_products if processor.HAS_SHORT_PRODUCTS else add_widened_shorts,
    32: _add_float_products,
}
"""Code for this processor, by bits of a weight: builder, sums, 32 bits of a row in each lane and of each column."""


@instruction(types.float32)
def dot(builder: Any, one: Any, first: Any, other: Any, second: Any, size: Any) -> Any:
    """Sum of one[first + k] * other[second + k] for k < size, a multiple of HEAD_WIDTH_MULTIPLE."""
    bases = builder.gep(one.data, [first]), builder.gep(other.data, [second])
    loop = llvm.CountedLoop(builder)
    total = loop.variable(llvm.constant(_SOME, 0.0))
    following = llvm.call(builder, "fma", *(_load(builder, base, loop.counter) for base in bases), total)
    loop.end(size, [(total, following)], by=HEAD_WIDTH_MULTIPLE)
    return llvm.across(builder, "fadd", following)


@instruction(types.void)
def weighted_sum(
    builder: Any, out: Any, first: Any, factors: Any, second: Any, values: Any, places: Any, shift: Any, count: Any
) -> None:
    """out[first + i] = sum over k < count of factors[second + k] * values[places[k] + shift + i].

    For i < HEAD_WIDTH_MULTIPLE. The sum is in the order of k.
    """
    factor_base, value_base = builder.gep(factors.data, [second]), builder.gep(values.data, [shift])
    loop = llvm.CountedLoop(builder)
    total = loop.variable(llvm.constant(_SOME, 0.0))
    factor = splat(builder, builder.load(builder.gep(factor_base, [loop.counter])), _SOME)
    numbers = _load(builder, value_base, builder.load(builder.gep(places.data, [loop.counter])))
    following = llvm.call(builder, "fma", factor, numbers, total)
    loop.end(count, [(total, following)])
    _store(builder, following, builder.gep(out.data, [first]), _long(0))


@instruction(types.void)
def keep(builder: Any, out: Any, first: Any, values: Any, second: Any, size: Any) -> None:
    """out[first + k] = values[second + k] for k < size, a multiple of HEAD_WIDTH_MULTIPLE.

    Numbers outside the range of float16 become the nearest number in it if `out` has float16.
    """
    target, source = builder.gep(out.data, [first]), builder.gep(values.data, [second])
    loop = llvm.CountedLoop(builder)
    _store(builder, _load(builder, source, loop.counter), target, loop.counter)
    loop.end(size, by=HEAD_WIDTH_MULTIPLE)


@instruction(types.void)
def fetch_ahead(builder: Any, array: Any, index: Any) -> None:
    """Prefetch the cache line of an element, without waiting for it."""
    place = builder.bitcast(builder.gep(array.data, [index]), _BYTE.as_pointer())
    function = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), INT, INT, INT])
    prefetch = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
    read, soon, data = (ir.Constant(INT, value) for value in (0, 3, 1))
    builder.call(prefetch, [place, read, soon, data])


def _long(value: int) -> Any:
    return ir.Constant(LONG, value)


def _load(builder: Any, base: Any, step: Any) -> Any:
    """HEAD_WIDTH_MULTIPLE numbers from an address, as float32."""
    halves = base.type.pointee == SHORT
    stored = ir.VectorType(ir.HalfType(), HEAD_WIDTH_MULTIPLE) if halves else _SOME
    place = builder.bitcast(builder.gep(base, [step]), stored.as_pointer())
    numbers = builder.load(place, align=2 if halves else 4)
    return builder.fpext(numbers, _SOME) if halves else numbers


def _store(builder: Any, numbers: Any, base: Any, step: Any) -> None:
    """Store HEAD_WIDTH_MULTIPLE float32, clamped to the range of float16 if the array has float16."""
    halves = base.type.pointee == SHORT
    if halves:
        for name, limit in (("minnum", _LARGEST_HALF), ("maxnum", -_LARGEST_HALF)):
            numbers = llvm.call(builder, name, numbers, llvm.constant(_SOME, limit))
        numbers = builder.fptrunc(numbers, ir.VectorType(ir.HalfType(), HEAD_WIDTH_MULTIPLE))
    place = builder.bitcast(builder.gep(base, [step]), numbers.type.as_pointer())
    builder.store(numbers, place, align=2 if halves else 4)
