"""Matrix products, attention and layers of the compiled search, compared with numpy and torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="numba compiles what is tested here")

import numba

from dragoman.bundle import Weights
from dragoman.bundle.weights import Product, quantize_weight
from dragoman.config import InferenceSettings, ModelSettings
from dragoman.engines.choice import compile_weights
from dragoman.engines.compiled.engine import allocate_rows, allocate_search
from dragoman.engines.compiled.layers import (
    activate,
    multiply_rows,
    normalize_row,
    softmax,
    store_row,
)
from dragoman.engines.compiled.layout import NUMBER_TYPES, BeamRules, Norm, PackedLinear
from dragoman.engines.compiled.weights import pack_products
from dragoman.kernels.jit import NO_REFERENCE_COUNTING, jit_without_nan
from dragoman.kernels.matrix_products import ADD_PRODUCTS, add_split_bytes, add_widened_shorts, dot, keep, weighted_sum
from dragoman.kernels.processor import (
    CACHE_LINE_BYTES,
    MULTIPLIED_TOGETHER,
    PRODUCT_COLUMNS,
    PRODUCT_ROWS,
    largest_integer,
)
from dragoman.kernels.vectors import exp2, maximum
from dragoman.model.transformer import Transformer

PRECISIONS = ["float32", "int8", "int16"]


@jit_without_nan
def dot_of(one: Any, first: int, other: Any, second: int, size: int) -> Any:
    return dot(one, first, other, second, size)


@jit_without_nan
def weigh_into(out: Any, factors: Any, values: Any, places: Any, shift: int, count: int) -> None:
    weighted_sum(out, 1, factors, 2, values, places, shift, count)


@jit_without_nan
def keep_values(out: Any, values: Any, size: int) -> None:
    keep(out, 1, values, 2, size)


@jit_without_nan
def exp2_of(values: Any, out: Any) -> None:
    for i in range(values.size):
        out[i] = exp2(values[i])


@jit_without_nan
def largest_of(values: Any) -> Any:
    top = values[0]
    for i in range(values.size):
        top = maximum(top, values[i])
    return top


@jit_without_nan
def put(values: Any, inputs: Any, scales: Any, row: int) -> None:
    store_row(values, inputs, scales, row)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", [16, 32, 48, 512])
def test_dot_starts_at_the_given_indices(size: int) -> None:
    one, other = numbers(size + 7), numbers(size + 9, seed=1)
    assert dot_of(one, 7, other, 3, size) == pytest.approx(one[7:] @ other[3 : 3 + size], abs=1e-4)
    halves = other.astype(np.float16)
    expected = one[7:] @ halves[3 : 3 + size].astype(np.float32)
    assert dot_of(one, 7, halves.view(np.uint16), 3, size) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("count", [1, 2, 13, 100])
def test_weighted_sum_reads_values_at_the_given_places(count: int) -> None:
    out, factors, values = numbers(20), numbers(count + 2, seed=1), numbers(4000, seed=2)
    places = np.random.default_rng(3).integers(0, 3900, count)
    before = out.copy()
    weigh_into(out, factors, values, places, 5, count)
    expected = sum(factors[2 + k] * values[places[k] + 5 : places[k] + 21].astype(np.float64) for k in range(count))
    np.testing.assert_allclose(out[1:17], expected, atol=1e-4)
    assert (out[[0, 17, 18, 19]] == before[[0, 17, 18, 19]]).all()


def test_keep_rounds_to_float16_and_clamps_large_numbers() -> None:
    values = numbers(34) * 100
    values[[2, 5, 9]] = 1e9, -1e9, 65504
    out = np.zeros(34, np.uint16)
    keep_values(out, values, 32)
    expected = values[2:].clip(-65504, 65504).astype(np.float16)
    assert (out[1:33].view(np.float16) == expected).all()
    assert out[0] == out[33] == 0


def test_exp2_is_within_3e_7() -> None:
    values = np.concatenate([np.linspace(-126, 100, 100_001), [-1e9, -np.inf, -127.5, 0, -0.5, 0.5]]).astype(np.float32)
    found = np.zeros_like(values)
    exp2_of(values, found)
    np.testing.assert_allclose(found, np.exp2(values.clip(-126).astype(np.float64)), rtol=3e-7)


def test_maximum_equals_numpy() -> None:
    values = numbers(101) * 10
    values[77] = -np.inf
    assert largest_of(values) == values.max()


@pytest.mark.parametrize("size", [1, 5, 16, 17, 100])
def test_softmax_and_layer_norm_equal_torch(size: int) -> None:
    scores = np.concatenate([numbers(size) * 20, numbers(16)])
    expected = torch.softmax(torch.tensor(scores[:size]).double() * np.log(2), 0)
    softmax(scores, size)
    np.testing.assert_allclose(scores[:size], expected, atol=1e-6)
    values, gain, bias = numbers(size) + 3, numbers(size, seed=1), numbers(size, seed=2)
    out = np.zeros(size, np.float32)
    normalize_row(values, gain, bias, 1e-5, out)
    tensor, weight, shift = (torch.tensor(one) for one in (values, gain, bias))
    normal = torch.nn.functional.layer_norm(tensor, (size,), weight, shift)
    np.testing.assert_allclose(out, normal, atol=1e-4)


def place_apart(gap: int, *arrays: Any) -> list[Any]:
    """Copies in one block of memory in this order, `gap` bytes apart."""
    memory = np.zeros(64 + sum(array.nbytes + gap for array in arrays), np.uint8)
    end, placed = -memory.ctypes.data % 64, []
    for array in arrays:
        view = memory[end : end + array.nbytes].view(array.dtype).reshape(array.shape)
        view[...] = array
        placed.append(view)
        end += array.nbytes + gap
    return placed


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_states_do_not_depend_on_the_addresses_of_norm_weights(norm_first: bool, precision: str) -> None:
    """The output of a layer norm is up to 320 bytes behind its weights, where compiled code may branch."""
    torch.manual_seed(1)
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    model = Transformer(ModelSettings(preset="custom", norm_first=norm_first, **sizes), 40, 40).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    weights, chosen = compile_weights(Weights.of(model), precision), InferenceSettings(beam_size=1)
    encoder, decoder = weights.encoder(16).record, weights.decoder(16).record
    ids, starts, slots = np.arange(3, 19), np.array([0, 16]), np.zeros(1, np.int64)
    code, rules = weights.code, BeamRules(beam_size=1, n_best=1, min_tokens=1)

    def states(norms: tuple[str, Any, Any], line: Any) -> tuple[bytes, bytes]:
        name, gain, bias = norms
        rows = allocate_rows(weights, 16, 16, 16)._replace(line=line)
        search = allocate_search(weights, chosen, 1, 16, 16, 0)
        search.live[0], search.ids[0, 0] = 1, 1
        read = encoder._replace(**{name: Norm(gain, bias)}) if hasattr(encoder, name) else encoder
        code.call("encode", read, decoder, weights.shape, rows, search, ids, starts, slots)
        of_sources = rows.inputs.tobytes()
        changed = decoder._replace(**{name: Norm(gain, bias)})
        code.call("decode_steps", changed, weights.shape, rules, rows, search, slots, slots.copy(), 1, 1)
        return of_sources, rows.inputs.tobytes()

    for name in ("self_norm", "cross_norm", "feed_forward_norm", "final_norm")[: 4 if norm_first else 3]:
        norm = getattr(decoder, name)
        expected = states((name, norm.gain, norm.bias), np.zeros(1024, np.float32)[512:])
        for gap in range(0, 320, 4):
            bias, gain, line = place_apart(gap, norm.bias, norm.gain, np.zeros(64, np.float32))
            assert states((name, gain, bias), line) == expected, (name, gap)
            gain, bias, line = place_apart(gap, norm.gain, norm.bias, np.zeros(64, np.float32))
            assert states((name, gain, bias), line) == expected, (name, gap)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_inputs_of_a_product_do_not_depend_on_addresses(precision: str) -> None:
    values, kind = numbers(96) * 3, NUMBER_TYPES[precision]["inputs"]
    expected, scales = np.zeros((1, 96), kind), np.zeros(1, np.float32)
    put(values, expected, scales, 0)
    for gap in range(0, 320, 4):
        near, out, scale = place_apart(gap, values, np.zeros((1, 96), kind), np.zeros(1, np.float32))
        put(near, out, scale, 0)
        assert (out.tobytes(), scale) == (expected.tobytes(), scales), gap


@pytest.mark.parametrize("activation", range(3))
def test_activation_does_not_depend_on_addresses(activation: int) -> None:
    values = numbers(70) * 3
    expected = np.zeros(70, np.float32)
    activate(values, activation, expected)
    for gap in range(0, 320, 4):
        near, out = place_apart(gap, values, np.zeros(70, np.float32))
        activate(near, activation, out)
        assert out.tobytes() == expected.tobytes(), gap


def multiply(
    rows: Any, linear: PackedLinear, precision: str, product: Callable[..., None] = multiply_rows
) -> tuple[Any, Any, Any]:
    """The product of rows with a packed weight, the quantized rows and their scales."""
    count, depth = rows.shape
    padded_count = -(-count // PRODUCT_ROWS) * PRODUCT_ROWS
    inputs = np.zeros(
        (padded_count, depth + -depth % MULTIPLIED_TOGETHER[precision]), NUMBER_TYPES[precision]["inputs"]
    )
    scales, out = np.ones(padded_count, np.float32), np.zeros((padded_count, linear.bias.shape[1]), np.float32)
    for row in range(count):
        put(rows[row], inputs, scales, row)
    product(inputs, scales, linear, 0, count, out)
    return out[:count], inputs[:count], scales[:count]


def linear_map(weight: Any, precision: str, bias: Any = None) -> Product:
    return Product(*quantize_weight(weight, precision), np.zeros(len(weight), np.float32) if bias is None else bias)


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 11), st.sampled_from([1, 3, 8, 30, 64, 130]), st.integers(1, 150), st.integers(0, 99))
def test_products_equal_numpy(precision: str, count: int, depth: int, size: int, seed: int) -> None:
    """float32 up to rounding. Integers: the exact sum of products, times the scales."""
    rows, weight, bias = numbers(count, depth, seed=seed), numbers(size, depth, seed=seed + 1), numbers(size, seed=seed)
    linear = pack_products([linear_map(weight, precision, bias)], precision, padding=-np.inf)
    found, inputs, scales = multiply(rows, linear, precision)
    assert found.shape[1] % PRODUCT_COLUMNS == 0
    assert (found[:, size:] == -np.inf).all()
    expected = rows.astype(np.float64) @ weight.T.astype(np.float64) + bias
    if precision == "float32":
        np.testing.assert_allclose(found[:, :size], expected, atol=1e-4)
        return
    most, zero = np.float32(largest_integer(precision, depth)), 128 if precision == "int8" else 0
    largest = np.abs(weight).max(1, keepdims=True)
    integers = (weight / (np.maximum(largest, 1e-38) / most)).round()
    sums = (inputs[:, :depth].astype(np.int64) - zero) @ integers.astype(np.int64).T
    exact = sums * (largest[:, 0] / most) * scales[:, None] + bias
    np.testing.assert_allclose(found[:, :size], exact, rtol=1e-4, atol=1e-5)
    of_rows = np.abs(rows).max(1)[:, None] / most * np.abs(weight).sum(1)
    of_weights = largest[:, 0] / most * np.abs(rows).sum(1)[:, None]
    assert (np.abs(found[:, :size] - expected) <= 0.51 * (of_rows + of_weights) + 1e-4).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packed_weights_start_on_a_cache_line(precision: str) -> None:
    for size in (3, 40, 700):
        linear = pack_products([linear_map(np.ones((size, 30), np.float32), precision)] * 2, precision)
        assert linear.panels.ctypes.data % CACHE_LINE_BYTES == 0


@pytest.mark.parametrize(
    ("precision", "code"),
    [
        ("int8", {8: add_split_bytes}),
        ("int8", {8: add_split_bytes, 16: add_widened_shorts}),
        ("int16", {16: add_widened_shorts}),
    ],
)
def test_code_for_other_processors_gives_the_same_bits(
    precision: str, code: dict[int, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row and column have the largest sums, which saturate 16 bits."""
    rows, weight = numbers(9, 130), numbers(100, 130, seed=1)
    rows[0], weight[0] = 0.7, -1.3
    linear = pack_products([linear_map(weight, precision, numbers(100))], precision)
    expected = multiply(rows, linear, precision)[0]
    for bits, add_products in code.items():
        monkeypatch.setitem(ADD_PRODUCTS, bits, add_products)
    product: Any = numba.njit(error_model="numpy", **NO_REFERENCE_COUNTING)(multiply_rows.py_func)  # type: ignore[attr-defined]
    assert (multiply(rows, linear, precision, product)[0] == expected).all()


@pytest.mark.parametrize("depth", [1, 2, 512, 2048, 4096])
def test_largest_sums_of_int16_do_not_overflow(depth: int) -> None:
    rows, weight = np.full((1, depth), 0.7, np.float32), np.full((PRODUCT_COLUMNS, depth), -1.3, np.float32)
    found, inputs, _ = multiply(rows, pack_products([linear_map(weight, "int16")], "int16"), "int16")
    assert inputs.max() == largest_integer("int16", depth)
    np.testing.assert_allclose(found, -0.91 * depth, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_row_does_not_depend_on_other_rows_to_the_last_bit(precision: str) -> None:
    rows, weight = numbers(23, 64), numbers(200, 64, seed=1)
    linear = pack_products([linear_map(weight, precision)], precision)
    together = multiply(rows, linear, precision)[0]
    for first, last in ((0, 1), (3, 4), (5, 23), (22, 23)):
        assert (multiply(rows[first:last], linear, precision)[0] == together[first:last]).all()
