"""Instructions on numbers and vectors, compared with numpy and torch."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="numba compiles what is tested here")

from dragoman.kernels import VECTOR_WIDTH
from dragoman.kernels.jit import jit_compile
from dragoman.kernels.processor import TILE_ROWS
from dragoman.kernels.vectors import (
    at_least,
    copy_vector,
    dot_of_vectors,
    exp2_of_vector,
    load_number,
    max_of_vector,
    multiply_tile,
    store_number,
    subtract_and_multiply,
    sum_of,
    sum_of_powers,
    sum_of_squares,
    sums_of_gradients,
    write_powers,
)


@jit_compile
def copy_values(values: Any, out: Any) -> None:
    for i in range(values.size):
        store_number(out, i, load_number(values[i]))


@jit_compile
def copy_line(values: Any, factor: Any, out: Any) -> None:
    copy_vector(values, factor, out)


@jit_compile
def softmax_parts(line: Any, count: Any) -> Any:
    top = max_of_vector(line, count)
    return top, exp2_of_vector(line, count, top)


@jit_compile
def sums(values: Any, others: Any, gains: Any) -> Any:
    squares, powers = sum_of_squares(values, np.float32(0.3)), sum_of_powers(values, np.float32(0.3))
    of_gradients = sums_of_gradients(others, gains, values, np.float32(0.3), np.float32(1.7))
    return (sum_of(values), squares, powers), of_gradients


@jit_compile
def replace_by_powers(values: Any) -> Any:
    return write_powers(values)


@jit_compile
def multiply_then_subtract(line: Any, less: Any, factors: Any) -> Any:
    product = dot_of_vectors(line, factors)
    subtract_and_multiply(line, less, factors)
    return product


@jit_compile
def tile(left: Any, row_step: int, step: int, right: Any, depth: int, out: Any) -> None:
    multiply_tile(left, 1, row_step, step, right, depth, out, 0)


@jit_compile
def limit_values(values: Any, limit: Any) -> None:
    for i in range(values.size):
        values[i] = at_least(values[i], limit)


def bits(tensor: torch.Tensor) -> Any:
    return tensor.view(torch.uint16).numpy()


def test_rounds_to_bfloat16_as_torch_does() -> None:
    """For random bits, halfway cases, the ends of the range, zeros of both signs, infinities and NaN."""
    patterns = torch.randint(-(2**31), 2**31 - 1, (100_000,), generator=torch.Generator().manual_seed(0))
    halfway = (patterns & ~0xFFFF) | 0x8000
    special = torch.tensor([0.0, -0.0, 3.4e38, -3.4e38, 1e-45, float("inf"), float("-inf"), float("nan")])
    values = torch.cat([patterns.int().view(torch.float32), halfway.int().view(torch.float32), special])
    ordinary = torch.cat([values[~values.isnan()], special[-1:]])
    expected = ordinary.bfloat16()
    found = torch.empty(len(ordinary), dtype=torch.bfloat16)
    copy_values(ordinary.numpy(), bits(found))
    assert torch.equal(found[:-1], expected[:-1])
    assert found[-1].isnan()
    for start in range(0, 1024, VECTOR_WIDTH):
        line = torch.empty(VECTOR_WIDTH, dtype=torch.bfloat16)
        copy_line(ordinary[start : start + VECTOR_WIDTH].numpy(), np.float32(1), bits(line))
        assert torch.equal(line, expected[start : start + VECTOR_WIDTH])


def test_reads_bfloat16_exactly() -> None:
    everything = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.bfloat16)
    found = np.empty(len(everything), np.float32)
    copy_values(bits(everything), found)
    np.testing.assert_array_equal(found, everything.float().numpy())
    line = np.empty(VECTOR_WIDTH, np.float32)
    copy_line(bits(everything)[16000 : 16000 + VECTOR_WIDTH], np.float32(2), line)
    np.testing.assert_array_equal(line, 2 * found[16000 : 16000 + VECTOR_WIDTH])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-60, 60, width=32), min_size=VECTOR_WIDTH, max_size=VECTOR_WIDTH), st.integers(1, VECTOR_WIDTH)
)
def test_softmax_of_the_first_lanes(values: list[float], count: int) -> None:
    line = np.array(values, np.float32)
    wanted = np.exp2((line[:count] - line[:count].max()).astype(np.float64))
    top, total = softmax_parts(line, np.int32(count))
    assert top == np.array(values, np.float32)[:count].max()
    np.testing.assert_allclose(line[:count], wanted, rtol=1e-6)
    assert not line[count:].any()
    np.testing.assert_allclose(total, wanted.sum(), rtol=1e-6)


def test_softmax_of_nan_is_nan() -> None:
    line = np.zeros(VECTOR_WIDTH, np.float32)
    line[3] = np.nan
    assert np.isnan(softmax_parts(line, np.int32(VECTOR_WIDTH))[1])


def test_products_and_sums_of_a_line() -> None:
    line, factors = (np.random.default_rng(seed).normal(size=VECTOR_WIDTH).astype(np.float32) for seed in (0, 1))
    before = line.copy()
    np.testing.assert_allclose(multiply_then_subtract(line, np.float32(0.5), factors), before @ factors, rtol=1e-5)
    np.testing.assert_allclose(line, (before - 0.5) * factors, rtol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("depth", [1, 13])
def test_tile_of_a_product(turned: bool, depth: int) -> None:
    random = np.random.default_rng(0)
    left = random.normal(size=(TILE_ROWS, depth)).astype(np.float32)
    right = random.normal(size=(depth, 3, VECTOR_WIDTH)).astype(np.float32)
    out = np.zeros((TILE_ROWS, 2, VECTOR_WIDTH), np.float32)
    flat = np.concatenate([[np.float32(9)], (left.T if turned else left).ravel()])
    tile(flat, 1 if turned else depth, TILE_ROWS if turned else 1, right[:, 1:], depth, out[:, 1:])
    np.testing.assert_allclose(out[:, 1], left @ right[:, 1], rtol=1e-5, atol=1e-6)
    assert not out[:, 0].any()


def test_at_least_keeps_nan() -> None:
    values = np.array([-1, 2, np.nan, -np.inf], np.float32)
    limit_values(values, np.float32(0))
    np.testing.assert_array_equal(values, np.array([0, 2, np.nan, 0], np.float32))


def store(values: Any, is_bfloat16: bool) -> tuple[Any, Any]:
    """The values as a kernel stores them, and the same numbers in float64."""
    if not is_bfloat16:
        return values, values.astype(np.float64)
    tensor = torch.tensor(values).bfloat16()
    return tensor.view(torch.uint16).numpy(), tensor.double().numpy()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100), st.integers(0, 999), st.booleans())
def test_sums_equal_numpy_and_ignore_memory_beyond_the_vector(size: int, seed: int, is_bfloat16: bool) -> None:
    noise = np.random.default_rng(seed).normal(size=(3, size + 20)).astype(np.float32)
    noise[:, size:] = np.nan
    given_rows, meant = zip(*(store(row, is_bfloat16) for row in noise), strict=True)
    plain, of_gradients = sums(*(row[:size] for row in given_rows))
    x, y, gain = (row[:size] for row in meant)
    normed = (x - 0.3) * 1.7
    expected = [x.sum(), ((x - 0.3) ** 2).sum(), (2 ** (x - 0.3)).sum()]
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(of_gradients, [(y * gain).sum(), (y * gain * normed).sum()], rtol=1e-5, atol=1e-4)
    values, before = given_rows[0], given_rows[0].copy()
    assert replace_by_powers(values[:size]) == pytest.approx((2**x).sum(), rel=1e-5)
    assert values[size:].tobytes() == before[size:].tobytes()
    after = store(noise[0], False)[1] if not is_bfloat16 else torch.tensor(values).view(torch.bfloat16).double().numpy()
    np.testing.assert_allclose(after[:size], 2**x, rtol=2**-8 if is_bfloat16 else 1e-6)
