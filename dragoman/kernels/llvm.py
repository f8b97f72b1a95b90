"""Building blocks for instructions on vectors of VECTOR_WIDTH (16) numbers, written in LLVM's language.

numba cannot express vector instructions in Python. Functions decorated with `instruction` therefore generate LLVM code
themselves: they read vectors, compute with them and write them. A vector is one register with AVX-512, and LLVM
splits it into two with AVX2. Numbers in memory are float32, or bfloat16 stored as uint16. Registers hold float32.

`vectors.py` and `matrix_products.py` define instructions with these blocks.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from dragoman.kernels import VECTOR_WIDTH

SHORT, INT, LONG = (ir.IntType(bits) for bits in (16, 32, 64))
FLOAT = ir.FloatType()
VECTOR_TYPE = ir.VectorType(FLOAT, VECTOR_WIDTH)
_INTS, _SHORTS = (ir.VectorType(number, VECTOR_WIDTH) for number in (INT, SHORT))

# Coefficients of 2 ** x for |x| <= 1/2, lowest first: interpolation of degree 5 at Chebyshev points, error below 1e-7.
_EXP2_FACTORS = tuple(
    np.polynomial.Chebyshev.interpolate(np.exp2, 5, domain=[-0.5, 0.5])
    .convert(kind=np.polynomial.Polynomial)
    .coef.astype(np.float32)
)
_LEAST_EXPONENT = -126.0


def instruction(returns: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that makes a function for compiled functions from a function that generates its LLVM code.

    `returns` is numba's type of the result, or a function of the types of the arguments. The decorated function gets
    LLVM's builder, then the arguments: arrays as records with the fields `data`, `shape` and `strides`, and numbers as
    LLVM values. Python's integers are 64 bits wide, and all floats are float32.
    """

    def decorate(generate: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(generate)  # numba takes the names of the arguments, except the first, from the generator
        def typed(_typing: Any, *kinds: Any) -> Any:
            def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                views = (
                    context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
                    for kind, value in zip(signature.args, arguments, strict=True)
                )
                return generate(builder, *views)

            result = returns if isinstance(returns, types.Type) else returns(*kinds)
            return result(*map(_accepted, kinds)), lower

        made: Callable[..., Any] = intrinsic(typed)
        return made

    return decorate


def _accepted(kind: Any) -> Any:
    """The type of an argument that is given as another type."""
    if isinstance(kind, types.Float):
        return types.float32
    return types.intp if kind in (types.int64, types.uint64) else kind


def array_value(context: Any, builder: Any, kind: Any, address: Any, sizes: Sequence[Any]) -> Any:
    """The value of a contiguous array of a numba type, in memory that is neither owned nor checked."""
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [item]
    for size in reversed(sizes[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(address, array.data.type)
    populate_array(array, data=data, shape=sizes, strides=strides, itemsize=item, meminfo=None)
    return array._getvalue()


class CountedLoop:
    """Code between the constructor and `end` that repeats at least once. Its `counter` starts at 0."""

    def __init__(self, builder: Any) -> None:
        self._builder, self._before = builder, builder.block
        self._start, self._after = (builder.append_basic_block(name) for name in ("loop", "after"))
        builder.branch(self._start)
        builder.position_at_end(self._start)
        self.counter = self.variable(ir.Constant(LONG, 0))

    def variable(self, first: Any) -> Any:
        """A value that is `first` at the start, and changes at the end of each round."""
        made = self._builder.phi(first.type)
        made.add_incoming(first, self._before)
        return made

    def end(self, size: Any, variables: Iterable[tuple[Any, Any]] = (), by: int = 1) -> None:
        """Give each variable its next value. Repeat while the counter, increased by `by`, is below `size`."""
        following = self._builder.add(self.counter, ir.Constant(LONG, by))
        for variable, value in ((self.counter, following), *variables):
            variable.add_incoming(value, self._builder.block)
        self._builder.cbranch(self._builder.icmp_signed("<", following, size), self._start, self._after)
        self._builder.position_at_end(self._after)


class VectorSlice(NamedTuple):
    """VECTOR_WIDTH numbers from one index on. Lanes where `there` is false read as 0 and are not written."""

    builder: Any
    index: Any
    there: Any = None

    def read(self, array: Any) -> Any:
        """Numbers of an array, as float32."""
        return read(self.builder, self.builder.gep(array.data, [self.index]), self.there)

    def write(self, numbers: Any, array: Any) -> None:
        """Store numbers in an array."""
        write(self.builder, numbers, self.builder.gep(array.data, [self.index]), self.there)


def sum_over_vectors(
    builder: Any, values: Any, step: Callable[[VectorSlice, list[Any]], list[Any]], count: int = 1
) -> list[Any]:
    """Generate a loop over the numbers of a vector that computes `count` sums.

    `step` gets a slice of VECTOR_WIDTH numbers and the sums so far (one vector each), and returns the new sums. The
    last slice is masked if the size is not a multiple of VECTOR_WIDTH. Lanes are added up at the end, always in the
    same order.
    """
    size = cgutils.unpack_tuple(builder, values.shape)[0]
    whole = builder.and_(size, ir.Constant(LONG, -VECTOR_WIDTH))
    before = builder.block
    head, loop, after, rest, end = (
        builder.append_basic_block(name) for name in ("head", "lines", "after", "rest", "end")
    )
    builder.branch(head)
    builder.position_at_end(head)
    k, totals = builder.phi(LONG), [builder.phi(VECTOR_TYPE) for _ in range(count)]
    builder.cbranch(builder.icmp_signed("<", k, whole), loop, after)
    builder.position_at_end(loop)
    following = step(VectorSlice(builder, k), totals)
    k.add_incoming(ir.Constant(LONG, 0), before)
    k.add_incoming(builder.add(k, ir.Constant(LONG, VECTOR_WIDTH)), builder.block)
    for total, more in zip(totals, following, strict=True):
        total.add_incoming(constant(VECTOR_TYPE, 0.0), before)
        total.add_incoming(more, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    builder.cbranch(builder.icmp_signed("<", whole, size), rest, end)
    builder.position_at_end(rest)
    there = lane_mask(builder, builder.sub(size, whole))
    last = step(VectorSlice(builder, whole, there), totals)
    last = [builder.select(there, more, total) for total, more in zip(totals, last, strict=True)]
    builder.branch(end)
    builder.position_at_end(end)
    sums = []
    for total, more in zip(totals, last, strict=True):
        found = builder.phi(VECTOR_TYPE)
        found.add_incoming(total, after)
        found.add_incoming(more, rest)
        sums.append(found)
    return [across(builder, "fadd", found) for found in sums]


def constant(of: Any, value: float) -> Any:
    """A constant of a number's type, or a vector of it in all lanes."""
    return ir.Constant(of, [value] * of.count if isinstance(of, ir.VectorType) else value)


def call(builder: Any, name: str, *numbers: Any, fastmath: tuple[str, ...] = ()) -> Any:
    """LLVM's function `name`, such as fma, of float32 numbers or vectors."""
    of = numbers[0].type
    kind = f"v{of.count}f32" if isinstance(of, ir.VectorType) else "f32"
    function_type = ir.FunctionType(of, [of] * len(numbers))
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{kind}")
    return builder.call(function, numbers, fastmath=fastmath)


def larger_of(builder: Any, one: Any, limit: Any) -> Any:
    """The larger of `one` and `limit`. NaN stays NaN."""
    return builder.select(builder.fcmp_ordered("<", one, limit), limit, one)


def exp2_of(builder: Any, x: Any) -> Any:
    """2 ** x for x below 128, with a relative error below 3e-7. For x below -126 the result is 2 ** -126.

    `x` is float32, a number or a vector.
    """
    integers = _INTS if x.type == VECTOR_TYPE else INT
    x = larger_of(builder, x, constant(x.type, _LEAST_EXPONENT))
    whole = call(builder, "rint", x)
    x = builder.fsub(x, whole)
    power = constant(x.type, float(_EXP2_FACTORS[-1]))
    for factor in reversed(_EXP2_FACTORS[:-1]):
        power = call(builder, "fma", power, x, constant(x.type, float(factor)))
    exponent = builder.add(builder.fptosi(whole, integers), constant(integers, 127))
    return builder.fmul(power, builder.bitcast(builder.shl(exponent, constant(integers, 23)), x.type))


def read(builder: Any, place: Any, there: Any = None) -> Any:
    """VECTOR_WIDTH numbers from an address, as float32.

    Lanes where `there` is false are 0, and their memory is not accessed.
    """
    of = VECTOR_TYPE if place.type.pointee == FLOAT else _SHORTS
    pointer = builder.bitcast(place, of.as_pointer())
    if there is None:
        return widen(builder, builder.load(pointer, align=_item_size(of)))
    masked = ir.FunctionType(of, [pointer.type, INT, there.type, of])
    function = cgutils.get_or_insert_function(builder.module, masked, f"llvm.masked.load.{_name(of)}.p0")
    return widen(builder, builder.call(function, [pointer, ir.Constant(INT, _item_size(of)), there, constant(of, 0)]))


def write(builder: Any, numbers: Any, place: Any, there: Any = None) -> None:
    """Store VECTOR_WIDTH float32, rounded if the array has bfloat16. Lanes where `there` is false are not written."""
    stored = narrow(builder, numbers, place.type.pointee)
    of = stored.type
    pointer = builder.bitcast(place, of.as_pointer())
    if there is None:
        builder.store(stored, pointer, align=_item_size(of))
    else:
        masked = ir.FunctionType(ir.VoidType(), [of, pointer.type, INT, there.type])
        function = cgutils.get_or_insert_function(builder.module, masked, f"llvm.masked.store.{_name(of)}.p0")
        builder.call(function, [stored, pointer, ir.Constant(INT, _item_size(of)), there])


def _item_size(of: Any) -> int:
    return 4 if of == VECTOR_TYPE else 2


def _name(of: Any) -> str:
    return f"v{VECTOR_WIDTH}{'f32' if of == VECTOR_TYPE else 'i16'}"


def widen(builder: Any, stored: Any) -> Any:
    """A stored number, or a vector of them, as float32. 16 bits are a bfloat16."""
    if stored.type in (FLOAT, VECTOR_TYPE):
        return stored
    integers, floats = (INT, FLOAT) if stored.type == SHORT else (_INTS, VECTOR_TYPE)
    return builder.bitcast(builder.shl(builder.zext(stored, integers), constant(integers, 16)), floats)


def narrow(builder: Any, numbers: Any, stored: Any) -> Any:
    """float32, a number or a vector, in the type `stored`. 16 bits are the nearest bfloat16, even if halfway.

    NaN stays NaN if its lower 16 bits are zero. That is true for every NaN the hardware produces and every NaN
    converted from bfloat16.
    """
    if stored == FLOAT:
        return numbers
    integers, shorts = (INT, SHORT) if numbers.type == FLOAT else (_INTS, _SHORTS)
    bits, sixteen = builder.bitcast(numbers, integers), constant(integers, 16)
    odd = builder.and_(builder.lshr(bits, sixteen), constant(integers, 1))
    up = builder.add(builder.add(bits, constant(integers, 0x7FFF)), odd)
    return builder.trunc(builder.lshr(up, sixteen), shorts)


def lane_mask(builder: Any, count: Any) -> Any:
    """True in the first `count` lanes, an int32 or int64."""
    count = count if count.type == INT else builder.trunc(count, INT)
    return builder.icmp_signed("<", ir.Constant(_INTS, [*range(VECTOR_WIDTH)]), splat(builder, count, _INTS))


def splat(builder: Any, one: Any, of: Any = VECTOR_TYPE) -> Any:
    """A vector with the same number in all lanes."""
    undefined, lanes = ir.Constant(of, ir.Undefined), ir.Constant(ir.VectorType(INT, of.count), [0] * of.count)
    return builder.shuffle_vector(builder.insert_element(undefined, one, ir.Constant(INT, 0)), undefined, lanes)


def across(builder: Any, operation: str, numbers: Any) -> Any:
    """The sum ("fadd") or maximum of the lanes of a vector, by adding or comparing halves four times."""
    for half in (8, 4, 2, 1):
        undefined, lanes = ir.Constant(numbers.type, ir.Undefined), ir.VectorType(INT, half)
        one, other = (
            builder.shuffle_vector(numbers, undefined, ir.Constant(lanes, [*range(at, at + half)])) for at in (0, half)
        )
        numbers = builder.fadd(one, other) if operation == "fadd" else larger_of(builder, one, other)
    return builder.extract_element(numbers, ir.Constant(INT, 0))
