"""Arithmetic of compiled functions for which Python has no word: LLVM's instructions, and what is made of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from dragoman.model.compiled import LANES, TILE_ROWS
from dragoman.model.compiled.jit import AS_WRITTEN, compiled_with_nan

_SHORT, _INT, _LONG, _FLOAT = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_NUMBER = types.float32
_LINE, _INTS, _SHORTS = (ir.VectorType(of, LANES) for of in (_FLOAT, _INT, _SHORT))

# 2 ** x for |x| <= 1/2, through the Chebyshev points of degree 5: within 1e-7.
_P0, _P1, _P2, _P3, _P4, _P5 = (
    np.polynomial.Chebyshev.interpolate(np.exp2, 5, domain=[-0.5, 0.5])
    .convert(kind=np.polynomial.Polynomial)
    .coef.astype(np.float32)
)
_LEAST_EXPONENT = np.float32(-126)


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """For use in compiled functions. The first parameter is numba's, arguments are types; gives signature and code."""
    made: Callable[..., Any] = intrinsic(function)
    return made


@instruction
def larger(_typing: Any, one: Any, other: Any) -> Any:
    """The larger of two float32, the other one where one is NaN.

    Python's own `max` and `if` keep a loop from taking many numbers at once.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        maximum = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOAT, [_FLOAT, _FLOAT]), "llvm.maxnum.f32"
        )
        return builder.call(maximum, arguments, fastmath=("nnan", "nsz", "reassoc"))

    return _NUMBER(_NUMBER, _NUMBER), generate


@instruction
def at_least(_typing: Any, one: Any, limit: Any) -> Any:
    """A float32, or the limit where that is larger; NaN stays."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        one, limit = arguments
        return builder.select(builder.fcmp_ordered("<", one, limit), limit, one)

    return _NUMBER(_NUMBER, _NUMBER), generate


@instruction
def chosen(_typing: Any, condition: Any, one: Any, other: Any) -> Any:
    """The first float32 where the condition holds, else the other; both are computed."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return _NUMBER(types.boolean, _NUMBER, _NUMBER), generate


@instruction
def rounded(_typing: Any, one: Any) -> Any:
    """The nearest whole float32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        nearest = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_FLOAT, [_FLOAT]), "llvm.rint.f32")
        return builder.call(nearest, arguments)

    return _NUMBER(_NUMBER), generate


@instruction
def float_of_bits(_typing: Any, bits: Any) -> Any:
    """The float32 with these 32 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _FLOAT)

    return _NUMBER(types.int32), generate


@instruction
def product_and_sum(_typing: Any, one: Any, other: Any, added: Any) -> Any:
    """one * other + added, of float32, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(_FLOAT, [_FLOAT] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, function, "llvm.fma.f32"), arguments)

    return _NUMBER(_NUMBER, _NUMBER, _NUMBER), generate


@instruction
def of_bfloat16(_typing: Any, bits: Any) -> Any:
    """The float32 that these 16 bits are as bfloat16."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = builder.shl(builder.zext(arguments[0], _INT), ir.Constant(_INT, 16))
        return builder.bitcast(wide, _FLOAT)

    return _NUMBER(types.uint16), generate


@instruction
def to_bfloat16(_typing: Any, number: Any) -> Any:
    """The bits of the nearest bfloat16, of two as near the even one. NaN stays where its last 16 bits are zero.

    Those of what bfloat16 numbers give, and of what a processor makes of float32, are.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _INT)
        odd = builder.and_(builder.lshr(bits, ir.Constant(_INT, 16)), ir.Constant(_INT, 1))
        up = builder.add(builder.add(bits, ir.Constant(_INT, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(up, ir.Constant(_INT, 16)), _SHORT)

    return types.uint16(_NUMBER), generate


@instruction
def multiply_tile(
    _typing: Any, left: Any, first: Any, row_step: Any, step: Any, right: Any, depth: Any, out: Any, start: Any
) -> Any:
    """out[start + r, 0, j] = sum over k of left[first + r * row_step + k * step] * right[k, 0, j], k below `depth` > 0.

    For TILE_ROWS rows r and LANES columns j. `left` is a vector; `right` (K, C, LANES) and `out` (R, C, LANES) begin
    with the column of the tile, and their rows lie as far apart as their strides say. All float32.
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
        four = ir.Constant(_LONG, 4)
        corner = at(left.data, builder.mul(first, four))
        rows = [
            at(corner, builder.mul(builder.mul(row_step, four), ir.Constant(_LONG, row))) for row in range(TILE_ROWS)
        ]
        right_step, out_step = (cgutils.unpack_tuple(builder, each.strides)[0] for each in (right, out))
        add_product = fma(builder)

        before, loop, after = builder.block, builder.append_basic_block("depth"), builder.append_basic_block("sums")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(_LONG)
        k.add_incoming(ir.Constant(_LONG, 0), before)
        sums = [builder.phi(_LINE) for _ in range(TILE_ROWS)]
        line = loaded(at(right.data, builder.mul(k, right_step)), _LINE)
        offset = builder.mul(builder.mul(k, step), four)
        for row, total in zip(rows, sums, strict=True):
            factor = everywhere(builder, loaded(at(row, offset), _FLOAT))
            total.add_incoming(ir.Constant(_LINE, [0.0] * LANES), before)
            total.add_incoming(builder.call(add_product, [factor, line, total]), loop)
        following = builder.add(k, ir.Constant(_LONG, 1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

        builder.position_at_end(after)
        for row, total in enumerate(sums):
            place = at(out.data, builder.mul(out_step, builder.add(start, ir.Constant(_LONG, row))))
            builder.store(total.incomings[1][0], builder.bitcast(place, _LINE.as_pointer()), align=4)

    return signature, generate


@instruction
def copy_line(_typing: Any, source: Any, factor: Any, target: Any) -> Any:
    """target = factor * source, of LANES numbers; either may be uint16 that hold bfloat16."""
    signature = types.void(source, _NUMBER, target)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        source, target = (_place(context, builder, signature, arguments, position) for position in (0, 2))
        _write(builder, builder.fmul(_read(builder, source), everywhere(builder, arguments[1])), target)

    return signature, generate


@instruction
def largest_of_line(_typing: Any, line: Any, count: Any) -> Any:
    """The largest of the first `count` of LANES float32; -3e38 where there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = _read(builder, _place(context, builder, signature, arguments, 0))
        least = ir.Constant(_LINE, [-3e38] * LANES)
        return across(builder, "fmax", builder.select(_first(builder, arguments[1]), numbers, least))

    return _NUMBER(line, types.int32), generate


@instruction
def exp2_of_line(_typing: Any, line: Any, count: Any, top: Any) -> Any:
    """The first `count` of LANES float32 become 2 ** (number - top), the others 0; gives their sum. Exact as `exp2`."""
    signature = _NUMBER(line, types.int32, _NUMBER)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments, 0)
        power = _powers(builder, builder.fsub(_read(builder, place), everywhere(builder, arguments[2])))
        power = builder.select(_first(builder, arguments[1]), power, ir.Constant(_LINE, [0.0] * LANES))
        _write(builder, power, place)
        return across(builder, "fadd", power)

    return signature, generate


@instruction
def dot_of_lines(_typing: Any, one: Any, other: Any) -> Any:
    """The sum of the products of LANES float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (_read(builder, _place(context, builder, signature, arguments, n)) for n in range(2))
        return across(builder, "fadd", builder.fmul(one, other))

    return _NUMBER(one, other), generate


@instruction
def subtract_and_multiply(_typing: Any, line: Any, less: Any, factors: Any) -> Any:
    """line = (line - less) * factors, of LANES float32."""
    signature = types.void(line, _NUMBER, factors)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        line, factors = (_place(context, builder, signature, arguments, n) for n in (0, 2))
        less = builder.fsub(_read(builder, line), everywhere(builder, arguments[1]))
        _write(builder, builder.fmul(less, _read(builder, factors)), line)

    return signature, generate


class _Line(NamedTuple):
    """LANES numbers of vectors from one index on, or those of them that are `there`: others read as 0 and stay."""

    builder: Any
    index: Any
    there: Any = None

    def read(self, place: Any) -> Any:
        """Of the vector that begins at a place, as float32."""
        at = self.builder.gep(place, [self.index])
        return _read(self.builder, at) if self.there is None else _read_some(self.builder, at, self.there)

    def write(self, numbers: Any, place: Any) -> None:
        """Into the vector that begins there."""
        at = self.builder.gep(place, [self.index])
        if self.there is None:
            _write(self.builder, numbers, at)
        else:
            _write_some(self.builder, numbers, at, self.there)


@instruction
def sum_of(_typing: Any, values: Any) -> Any:
    """The sum of a vector, of numbers of either kind; here and below of LANES at once, always in the same order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _vector(context, builder, signature, arguments, 0)

        def step(line: _Line, totals: list[Any]) -> list[Any]:
            return [builder.fadd(totals[0], line.read(place))]

        return _sums(builder, size, step, 1)[0]

    return _NUMBER(values), generate


@instruction
def sum_of_squares(_typing: Any, values: Any, mean: Any) -> Any:
    """The sum of (value - mean) ** 2."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _vector(context, builder, signature, arguments, 0)
        middle = everywhere(builder, arguments[1])

        def step(line: _Line, totals: list[Any]) -> list[Any]:
            off = builder.fsub(line.read(place), middle)
            return [builder.call(fma(builder), [off, off, totals[0]])]

        return _sums(builder, size, step, 1)[0]

    return _NUMBER(values, _NUMBER), generate


@instruction
def sums_of_gradients(_typing: Any, grads: Any, gains: Any, values: Any, mean: Any, inverse: Any) -> Any:
    """The sum of grad * gain, and that of grad * gain * (value - mean) * inverse."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = [_place(context, builder, signature, arguments, n) for n in range(3)]
        size = _vector(context, builder, signature, arguments, 0)[1]
        middle, factor = (everywhere(builder, arguments[n]) for n in (3, 4))

        def step(line: _Line, totals: list[Any]) -> list[Any]:
            grad, gain, value = (line.read(place) for place in places)
            scaled, normed = builder.fmul(grad, gain), builder.fmul(builder.fsub(value, middle), factor)
            return [builder.fadd(totals[0], scaled), builder.call(fma(builder), [scaled, normed, totals[1]])]

        return context.make_tuple(builder, signature.return_type, _sums(builder, size, step, 2))

    return UniTuple(_NUMBER, 2)(grads, gains, values, _NUMBER, _NUMBER), generate


@instruction
def sum_of_powers(_typing: Any, values: Any, shift: Any) -> Any:
    """The sum of 2 ** (value - shift), each exact as `exp2`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _vector(context, builder, signature, arguments, 0)
        less = everywhere(builder, arguments[1])

        def step(line: _Line, totals: list[Any]) -> list[Any]:
            return [builder.fadd(totals[0], _powers(builder, builder.fsub(line.read(place), less)))]

        return _sums(builder, size, step, 1)[0]

    return _NUMBER(values, _NUMBER), generate


@instruction
def made_powers(_typing: Any, values: Any) -> Any:
    """Makes each value 2 ** value, as `exp2` does; their sum is of what they were before they were stored."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _vector(context, builder, signature, arguments, 0)

        def step(line: _Line, totals: list[Any]) -> list[Any]:
            powers = _powers(builder, line.read(place))
            line.write(powers, place)
            return [builder.fadd(totals[0], powers)]

        return _sums(builder, size, step, 1)[0]

    return _NUMBER(values), generate


@instruction
def sums_of_two(_typing: Any, one: Any, other: Any) -> Any:
    """The sums of 2 ** x and 2 ** y for x of one vector and y of the other, and of both times x - y."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, size = _vector(context, builder, signature, arguments, 0)
        beside = _place(context, builder, signature, arguments, 1)

        def step(line: _Line, totals: list[Any]) -> list[Any]:
            x, y = line.read(place), line.read(beside)
            powers, gap = [_powers(builder, x), _powers(builder, y)], builder.fsub(x, y)
            along = [
                builder.call(fma(builder), [power, gap, total]) for power, total in zip(powers, totals[2:], strict=True)
            ]
            return [*(builder.fadd(total, power) for total, power in zip(totals, powers, strict=False)), *along]

        return context.make_tuple(builder, signature.return_type, _sums(builder, size, step, 4))

    return UniTuple(_NUMBER, 4)(one, other), generate


def _sums(builder: Any, size: Any, step: Callable[[_Line, list[Any]], list[Any]], count: int) -> list[Any]:
    """Adds up `count` sums: `step` makes of them those with a line of numbers more."""
    whole = builder.and_(size, ir.Constant(_LONG, -LANES))
    before = builder.block
    head, loop, after, rest, end = (
        builder.append_basic_block(name) for name in ("head", "lines", "after", "rest", "end")
    )
    builder.branch(head)
    builder.position_at_end(head)
    k, totals = builder.phi(_LONG), [builder.phi(_LINE) for _ in range(count)]
    builder.cbranch(builder.icmp_signed("<", k, whole), loop, after)
    builder.position_at_end(loop)
    following = step(_Line(builder, k), totals)
    k.add_incoming(ir.Constant(_LONG, 0), before)
    k.add_incoming(builder.add(k, ir.Constant(_LONG, LANES)), builder.block)
    for total, more in zip(totals, following, strict=True):
        total.add_incoming(ir.Constant(_LINE, [0.0] * LANES), before)
        total.add_incoming(more, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    builder.cbranch(builder.icmp_signed("<", whole, size), rest, end)
    builder.position_at_end(rest)
    there = _first(builder, builder.trunc(builder.sub(size, whole), _INT))
    last = step(_Line(builder, whole, there), totals)
    last = [builder.select(there, more, total) for total, more in zip(totals, last, strict=True)]
    builder.branch(end)
    builder.position_at_end(end)
    sums = []
    for total, more in zip(totals, last, strict=True):
        found = builder.phi(_LINE)
        found.add_incoming(total, after)
        found.add_incoming(more, rest)
        sums.append(found)
    return [across(builder, "fadd", found) for found in sums]


def _powers(builder: Any, x: Any) -> Any:
    """2 ** x of LANES float32, by the same operations as `exp2`."""
    least = ir.Constant(_LINE, [float(_LEAST_EXPONENT)] * LANES)
    x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
    nearest = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_LINE, [_LINE]), "llvm.rint.v16f32")
    whole = builder.call(nearest, [x])
    x = builder.fsub(x, whole)
    power = ir.Constant(_LINE, [float(_P5)] * LANES)
    for factor in (_P4, _P3, _P2, _P1, _P0):
        power = builder.call(fma(builder), [power, x, ir.Constant(_LINE, [float(factor)] * LANES)])
    exponent = builder.fptosi(whole, _INTS)
    exponent = builder.shl(builder.add(exponent, ir.Constant(_INTS, [127] * LANES)), ir.Constant(_INTS, [23] * LANES))
    return builder.fmul(power, builder.bitcast(exponent, _LINE))


def _vector(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> tuple[Any, Any]:
    """The address of a vector's first element, and its size."""
    array = context.make_array(signature.args[position])(context, builder, arguments[position])
    return array.data, cgutils.unpack_tuple(builder, array.shape)[0]


def _place(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> Any:
    """The address of an array's first element."""
    return context.make_array(signature.args[position])(context, builder, arguments[position]).data


def _read(builder: Any, place: Any) -> Any:
    """LANES numbers from there as float32."""
    if place.type.pointee == _FLOAT:
        return builder.load(builder.bitcast(place, _LINE.as_pointer()), align=4)
    return _widened(builder, builder.load(builder.bitcast(place, _SHORTS.as_pointer()), align=2))


def _read_some(builder: Any, place: Any, there: Any) -> Any:
    """The same of those lanes where `there` is true; the others are 0, and their memory is not looked at."""
    of = _LINE if place.type.pointee == _FLOAT else _SHORTS
    masked = ir.FunctionType(of, [of.as_pointer(), _INT, there.type, of])
    name = f"llvm.masked.load.v{LANES}{'f32' if of is _LINE else 'i16'}.p0"
    function = cgutils.get_or_insert_function(builder.module, masked, name)
    zeros = ir.Constant(of, [0] * LANES)
    align = ir.Constant(_INT, _item_size(place))
    found = builder.call(function, [builder.bitcast(place, of.as_pointer()), align, there, zeros])
    return found if of is _LINE else _widened(builder, found)


def _widened(builder: Any, bits: Any) -> Any:
    """The float32 that LANES bfloat16 are."""
    return builder.bitcast(builder.shl(builder.zext(bits, _INTS), ir.Constant(_INTS, [16] * LANES)), _LINE)


def _write(builder: Any, numbers: Any, place: Any) -> None:
    """Stores LANES numbers there, rounded as `to_bfloat16` does where that is wanted."""
    stored = _narrowed(builder, numbers, place)
    builder.store(stored, builder.bitcast(place, stored.type.as_pointer()), align=_item_size(place))


def _write_some(builder: Any, numbers: Any, place: Any, there: Any) -> None:
    """The same of those lanes where `there` is true."""
    stored = _narrowed(builder, numbers, place)
    pointer = stored.type.as_pointer()
    masked = ir.FunctionType(ir.VoidType(), [stored.type, pointer, _INT, there.type])
    name = f"llvm.masked.store.v{LANES}{'f32' if stored.type == _LINE else 'i16'}.p0"
    function = cgutils.get_or_insert_function(builder.module, masked, name)
    builder.call(function, [stored, builder.bitcast(place, pointer), ir.Constant(_INT, _item_size(place)), there])


def _narrowed(builder: Any, numbers: Any, place: Any) -> Any:
    """As they are stored there."""
    if place.type.pointee == _FLOAT:
        return numbers
    bits, sixteen = builder.bitcast(numbers, _INTS), ir.Constant(_INTS, [16] * LANES)
    odd = builder.and_(builder.lshr(bits, sixteen), ir.Constant(_INTS, [1] * LANES))
    up = builder.add(builder.add(bits, ir.Constant(_INTS, [0x7FFF] * LANES)), odd)
    return builder.trunc(builder.lshr(up, sixteen), _SHORTS)


def _item_size(place: Any) -> int:
    return 4 if place.type.pointee == _FLOAT else 2


def everywhere(builder: Any, one: Any, of: Any = _LINE) -> Any:
    """A number in all lanes of a vector."""
    undefined, lanes = ir.Constant(of, ir.Undefined), ir.Constant(ir.VectorType(_INT, of.count), [0] * of.count)
    return builder.shuffle_vector(builder.insert_element(undefined, one, ir.Constant(_INT, 0)), undefined, lanes)


def _first(builder: Any, count: Any) -> Any:
    """True in the first `count` (int32) lanes."""
    return builder.icmp_signed("<", ir.Constant(_INTS, [*range(LANES)]), everywhere(builder, count, _INTS))


def fma(builder: Any, of: Any = _LINE) -> Any:
    """LLVM's function that multiplies and adds vectors of float32."""
    name = f"llvm.fma.v{of.count}f32"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(of, [of] * 3), name)


def across(builder: Any, operation: str, numbers: Any) -> Any:
    """One number of all lanes: their sum or the largest, halves with halves."""
    for half in (8, 4, 2, 1):
        undefined, lanes = ir.Constant(numbers.type, ir.Undefined), ir.VectorType(_INT, half)
        one, other = (
            builder.shuffle_vector(numbers, undefined, ir.Constant(lanes, [*range(at, at + half)])) for at in (0, half)
        )
        if operation == "fadd":
            numbers = builder.fadd(one, other)
        else:
            numbers = builder.select(builder.fcmp_ordered("<", one, other), other, one)
    return builder.extract_element(numbers, ir.Constant(_INT, 0))


@compiled_with_nan
def exp2(x: Any) -> Any:
    """2 ** x for x below 128, within 3e-7 of it; 2 ** -126 below that."""
    x = at_least(x, _LEAST_EXPONENT)
    whole = rounded(x)
    x = x - whole
    power = product_and_sum(product_and_sum(_P5, x, _P4), x, _P3)
    power = product_and_sum(product_and_sum(product_and_sum(power, x, _P2), x, _P1), x, _P0)
    return power * float_of_bits(np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)))


@instruction
def array_at(_typing: Any, address: Any, like: Any, shape: Any) -> Any:
    """The array of a shape (a tuple) at an address, whose elements have the type of the number `like`."""
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


def number(stored: Any) -> Any:
    """The float32 that an element of an array stands for: itself, or what uint16 are as bfloat16."""


@overload(number, jit_options=AS_WRITTEN)  # type: ignore[untyped-decorator]
def _number(stored: Any) -> Any:
    if stored == types.uint16:

        def widened(stored: Any) -> Any:
            return of_bfloat16(stored)

        return widened

    def itself(stored: Any) -> Any:
        return stored

    return itself


def put(array: Any, index: Any, value: Any) -> None:
    """Stores a float32 in a vector of float32, or of uint16 as bfloat16."""


@overload(put, jit_options=AS_WRITTEN)  # type: ignore[untyped-decorator]
def _put(array: Any, index: Any, value: Any) -> Any:
    if array.dtype == types.uint16:

        def put_rounded(array: Any, index: Any, value: Any) -> None:
            array[index] = to_bfloat16(value)

        return put_rounded

    def put_as_it_is(array: Any, index: Any, value: Any) -> None:
        array[index] = value

    return put_as_it_is
