"""Building blocks for instructions on vectors of VECTOR_WIDTH (16) numbers, written in LLVM's language.

numba cannot express vector instructions in Python. Functions decorated with `instruction` therefore generate LLVM code
themselves: they read vectors, compute with them and write them. A vector is one register with AVX-512, and LLVM
splits it into two with AVX2. Numbers in memory are float32, or bfloat16 stored as uint16. Registers hold float32.

`vectors.py`, `arithmetic.py` and `matrix_products.py` define instructions with these blocks.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from dragoman.kernels import VECTOR_WIDTH

INT, LONG, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR_TYPE = ir.VectorType(FLOAT, VECTOR_WIDTH)
_INTS, _SHORTS = (ir.VectorType(ir.IntType(bits), VECTOR_WIDTH) for bits in (32, 16))

# Coefficients of 2 ** x for |x| <= 1/2, lowest first: interpolation of degree 5 at Chebyshev points, error below 1e-7.
EXP2_FACTORS = tuple(
    np.polynomial.Chebyshev.interpolate(np.exp2, 5, domain=[-0.5, 0.5])
    .convert(kind=np.polynomial.Polynomial)
    .coef.astype(np.float32)
)
LEAST_EXPONENT = np.float32(-126)


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that compiled functions can call, from its LLVM code (numba's `intrinsic`).

    `function` gets numba's typing context and the types of the arguments. It returns the signature and a function that
    generates the code.
    """
    made: Callable[..., Any] = intrinsic(function)
    return made


class VectorSlice(NamedTuple):
    """VECTOR_WIDTH numbers from one index on. Lanes where `there` is false read as 0 and are not written."""

    builder: Any
    index: Any
    there: Any = None

    def read(self, place: Any) -> Any:
        """Numbers of the array at address `place`, as float32."""
        at = self.builder.gep(place, [self.index])
        return read(self.builder, at) if self.there is None else _read_some(self.builder, at, self.there)

    def write(self, numbers: Any, place: Any) -> None:
        """Store numbers in the array at address `place`."""
        at = self.builder.gep(place, [self.index])
        if self.there is None:
            write(self.builder, numbers, at)
        else:
            _write_some(self.builder, numbers, at, self.there)


def sum_over_vectors(
    builder: Any, size: Any, step: Callable[[VectorSlice, list[Any]], list[Any]], count: int
) -> list[Any]:
    """Generate a loop over `size` numbers that computes `count` sums.

    `step` gets a slice of VECTOR_WIDTH numbers and the sums so far (one vector each), and returns the new sums. The
    last slice is masked if `size` is not a multiple of VECTOR_WIDTH. Lanes are added up at the end, always in the same
    order.
    """
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
        total.add_incoming(ir.Constant(VECTOR_TYPE, [0.0] * VECTOR_WIDTH), before)
        total.add_incoming(more, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    builder.cbranch(builder.icmp_signed("<", whole, size), rest, end)
    builder.position_at_end(rest)
    there = lane_mask(builder, builder.trunc(builder.sub(size, whole), INT))
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


def exp2_of(builder: Any, x: Any) -> Any:
    """2 ** x of VECTOR_WIDTH float32, by the same operations as `arithmetic.exp2`."""
    least = ir.Constant(VECTOR_TYPE, [float(LEAST_EXPONENT)] * VECTOR_WIDTH)
    x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
    nearest = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(VECTOR_TYPE, [VECTOR_TYPE]), "llvm.rint.v16f32"
    )
    whole = builder.call(nearest, [x])
    x = builder.fsub(x, whole)
    power = ir.Constant(VECTOR_TYPE, [float(EXP2_FACTORS[-1])] * VECTOR_WIDTH)
    for factor in reversed(EXP2_FACTORS[:-1]):
        power = builder.call(fma(builder), [power, x, ir.Constant(VECTOR_TYPE, [float(factor)] * VECTOR_WIDTH)])
    exponent = builder.fptosi(whole, _INTS)
    exponent = builder.shl(
        builder.add(exponent, ir.Constant(_INTS, [127] * VECTOR_WIDTH)), ir.Constant(_INTS, [23] * VECTOR_WIDTH)
    )
    return builder.fmul(power, builder.bitcast(exponent, VECTOR_TYPE))


def pointer_to(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> Any:
    """The address of the first element of the array at this position of the arguments."""
    return context.make_array(signature.args[position])(context, builder, arguments[position]).data


def vector(context: Any, builder: Any, signature: Any, arguments: Any, position: int) -> tuple[Any, Any]:
    """The address of the first element and the size of the vector at this position of the arguments."""
    array = context.make_array(signature.args[position])(context, builder, arguments[position])
    return array.data, cgutils.unpack_tuple(builder, array.shape)[0]


def read(builder: Any, place: Any) -> Any:
    """VECTOR_WIDTH numbers from an address, as float32."""
    if place.type.pointee == FLOAT:
        return builder.load(builder.bitcast(place, VECTOR_TYPE.as_pointer()), align=4)
    return _widen(builder, builder.load(builder.bitcast(place, _SHORTS.as_pointer()), align=2))


def _read_some(builder: Any, place: Any, there: Any) -> Any:
    """Like `read`, for lanes where `there` is true. Other lanes are 0, and their memory is not accessed."""
    of = VECTOR_TYPE if place.type.pointee == FLOAT else _SHORTS
    masked = ir.FunctionType(of, [of.as_pointer(), INT, there.type, of])
    name = f"llvm.masked.load.v{VECTOR_WIDTH}{'f32' if of is VECTOR_TYPE else 'i16'}.p0"
    function = cgutils.get_or_insert_function(builder.module, masked, name)
    zeros = ir.Constant(of, [0] * VECTOR_WIDTH)
    align = ir.Constant(INT, _item_size(place))
    found = builder.call(function, [builder.bitcast(place, of.as_pointer()), align, there, zeros])
    return found if of is VECTOR_TYPE else _widen(builder, found)


def _widen(builder: Any, bits: Any) -> Any:
    """VECTOR_WIDTH bfloat16 as float32."""
    return builder.bitcast(builder.shl(builder.zext(bits, _INTS), ir.Constant(_INTS, [16] * VECTOR_WIDTH)), VECTOR_TYPE)


def write(builder: Any, numbers: Any, place: Any) -> None:
    """Store VECTOR_WIDTH float32, rounded as in `arithmetic.to_bfloat16` if the array has bfloat16."""
    stored = _narrow(builder, numbers, place)
    builder.store(stored, builder.bitcast(place, stored.type.as_pointer()), align=_item_size(place))


def _write_some(builder: Any, numbers: Any, place: Any, there: Any) -> None:
    """Like `write`, for lanes where `there` is true."""
    stored = _narrow(builder, numbers, place)
    pointer = stored.type.as_pointer()
    masked = ir.FunctionType(ir.VoidType(), [stored.type, pointer, INT, there.type])
    name = f"llvm.masked.store.v{VECTOR_WIDTH}{'f32' if stored.type == VECTOR_TYPE else 'i16'}.p0"
    function = cgutils.get_or_insert_function(builder.module, masked, name)
    builder.call(function, [stored, builder.bitcast(place, pointer), ir.Constant(INT, _item_size(place)), there])


def _narrow(builder: Any, numbers: Any, place: Any) -> Any:
    """float32 in the type of the array at `place`, rounded to the nearest and to even if halfway."""
    if place.type.pointee == FLOAT:
        return numbers
    bits, sixteen = builder.bitcast(numbers, _INTS), ir.Constant(_INTS, [16] * VECTOR_WIDTH)
    odd = builder.and_(builder.lshr(bits, sixteen), ir.Constant(_INTS, [1] * VECTOR_WIDTH))
    up = builder.add(builder.add(bits, ir.Constant(_INTS, [0x7FFF] * VECTOR_WIDTH)), odd)
    return builder.trunc(builder.lshr(up, sixteen), _SHORTS)


def _item_size(place: Any) -> int:
    return 4 if place.type.pointee == FLOAT else 2


def lane_mask(builder: Any, count: Any) -> Any:
    """True in the first `count` (int32) lanes."""
    return builder.icmp_signed("<", ir.Constant(_INTS, [*range(VECTOR_WIDTH)]), splat(builder, count, _INTS))


def splat(builder: Any, one: Any, of: Any = VECTOR_TYPE) -> Any:
    """A vector with the same number in all lanes."""
    undefined, lanes = ir.Constant(of, ir.Undefined), ir.Constant(ir.VectorType(INT, of.count), [0] * of.count)
    return builder.shuffle_vector(builder.insert_element(undefined, one, ir.Constant(INT, 0)), undefined, lanes)


def fma(builder: Any, of: Any = VECTOR_TYPE) -> Any:
    """LLVM's function a * b + c for vectors of float32, rounded once."""
    name = f"llvm.fma.v{of.count}f32"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(of, [of] * 3), name)


def across(builder: Any, operation: str, numbers: Any) -> Any:
    """The sum ("fadd") or maximum of the lanes of a vector, by adding or comparing halves four times."""
    for half in (8, 4, 2, 1):
        undefined, lanes = ir.Constant(numbers.type, ir.Undefined), ir.VectorType(INT, half)
        one, other = (
            builder.shuffle_vector(numbers, undefined, ir.Constant(lanes, [*range(at, at + half)])) for at in (0, half)
        )
        if operation == "fadd":
            numbers = builder.fadd(one, other)
        else:
            numbers = builder.select(builder.fcmp_ordered("<", one, other), other, one)
    return builder.extract_element(numbers, ir.Constant(INT, 0))
