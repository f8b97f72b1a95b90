"""Training kernels give the same bits for every memory address, which exact resuming requires.

The tests place outputs up to 320 bytes behind inputs. Compiled loops check this distance and may take another branch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="numba compiles what is tested here")

from dragoman.kernels import training as typed_kernels

kernels: Any = typed_kernels
FLOAT, BFLOAT16 = np.float32(0), np.uint16(0)
COUNT, WIDTH = 3, 40
SHAPES = {"rows": (COUNT, WIDTH), "grads": (COUNT, WIDTH), "gain": (WIDTH,), "bias": (WIDTH,)}


def random_array(kind: Any, name: str) -> Any:
    values = np.random.default_rng(len(name)).normal(size=SHAPES[name]).astype(np.float32) + np.float32(1)
    return values if kind.dtype == np.float32 else (values.view(np.uint32) >> 16).astype(np.uint16)


def normalize(kind: Any, arrays: dict[str, Any], out: Any) -> list[Any]:
    means, inverses = np.zeros(COUNT, np.float32), np.zeros(COUNT, np.float32)
    at = [arrays[name].ctypes.data for name in ("rows", "gain", "bias")]
    kernels.normalize_rows(kind, COUNT, WIDTH, *at, 1e-5, *(each.ctypes.data for each in (out, means, inverses)))
    return [means, inverses]


def normalize_backward(kind: Any, arrays: dict[str, Any], out: Any) -> list[Any]:
    means, inverses = np.full(COUNT, 0.9, np.float32), np.full(COUNT, 1.1, np.float32)
    made = [np.zeros(WIDTH, kind.dtype) for _ in range(2)]
    at = [arrays[name].ctypes.data for name in ("grads", "rows", "gain")]
    places = [each.ctypes.data for each in (means, inverses, out)]
    sums = np.zeros((2, WIDTH), np.float32)
    kernels.normalize_rows_backward(kind, COUNT, WIDTH, *at, *places, sums, *(each.ctypes.data for each in made))
    return made


def add_with_dropout(kind: Any, arrays: dict[str, Any], out: Any) -> list[Any]:
    dropout_bits = np.arange(COUNT * WIDTH, dtype=np.int16)
    at = [arrays[name].ctypes.data for name in ("rows", "grads")]
    kernels.add_kept(kind, COUNT * WIDTH, *at, dropout_bits.ctypes.data, 7, 1.3, out.ctypes.data)
    return []


@pytest.mark.parametrize("kind", [FLOAT, BFLOAT16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (normalize, ("rows", "bias", "gain")),
        (normalize_backward, ("rows", "grads", "gain")),
        (add_with_dropout, ("rows", "grads")),
    ],
)
def test_results_do_not_depend_on_addresses(kernel: Callable[..., list[Any]], names: Sequence[str], kind: Any) -> None:
    arrays = {name: random_array(kind, name) for name in names}
    expected = np.zeros((COUNT, WIDTH), kind.dtype)
    others = kernel(kind, arrays, expected)
    assert expected.any()
    for last in names:
        order = [*(name for name in names if name != last), last]
        for gap in range(0, 320, 8):
            placed, out = place_apart(gap, {name: arrays[name] for name in order}, np.zeros_like(expected))
            found = kernel(kind, placed, out)
            assert out.tobytes() == expected.tobytes(), (last, gap)
            assert [each.tobytes() for each in found] == [each.tobytes() for each in others], (last, gap)


def place_apart(gap: int, arrays: dict[str, Any], out: Any) -> tuple[dict[str, Any], Any]:
    """Copies in one block of memory in this order, the output last, `gap` bytes apart."""
    memory = np.zeros(sum(array.nbytes + gap for array in arrays.values()) + out.nbytes + 64, np.uint8)
    end, placed = -memory.ctypes.data % 64, {}
    for name, array in arrays.items():
        placed[name] = memory[end : end + array.nbytes].view(array.dtype).reshape(array.shape)
        placed[name][...] = array
        end += array.nbytes + gap
    return placed, memory[end : end + out.nbytes].view(out.dtype).reshape(out.shape)
