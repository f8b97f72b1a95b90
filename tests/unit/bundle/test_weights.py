"""model.safetensors and optimizer.safetensors as numpy arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.bundle.weights import read_weights, stored_precision, write_tensors
from dragoman.errors import ModelError


def test_a_file_is_the_one_that_torch_would_write(tmp_path: Path) -> None:
    """Includes scalars, such as the step counts of an optimizer."""
    tensors = {"a.step": torch.tensor(7.0), "b": torch.arange(6.0).view(2, 3), "c": torch.zeros(0, 4)}
    save_file(tensors, tmp_path / "torch")
    write_tensors({name: tensor.numpy() for name, tensor in tensors.items()}, tmp_path / "numpy")
    assert (tmp_path / "numpy").read_bytes() == (tmp_path / "torch").read_bytes()
    assert {name: tensor.shape for name, tensor in load_file(tmp_path / "numpy").items()} == {
        name: tensor.shape for name, tensor in tensors.items()
    }


def test_arrays_in_any_order_are_written_in_rows(tmp_path: Path) -> None:
    write_tensors({"a": np.arange(6, dtype=np.float32).reshape(2, 3).T}, tmp_path / "file")
    assert load_file(tmp_path / "file")["a"].tolist() == [[0, 3], [1, 4], [2, 5]]


SHAPES = {"a.weight": (3, 2), "a.bias": (3,)}
QUANTIZED: dict[str, Any] = {
    "a.weight": np.array([[1, -127], [3, 4], [5, 6]], np.int8),
    "a.weight_scale": np.ones(3, np.float32),
    "a.bias": np.zeros(3, np.float32),
}


def test_matrices_of_integers_are_read_with_their_scales(tmp_path: Path) -> None:
    write_tensors(QUANTIZED, tmp_path / "file")
    found = read_weights(tmp_path / "file", SHAPES)
    assert {name: array.dtype for name, array in found.items()} == {name: a.dtype for name, a in QUANTIZED.items()}
    assert all((found[name] == array).all() for name, array in QUANTIZED.items())
    assert stored_precision(found) == "int8"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a.weight_scale": None}, "`a.weight_scale` is missing"),
        ({"a.weight_scale": np.ones(2, np.float32)}, r"`a.weight_scale` is F32 \(2,\) instead of F32 \(3,\)"),
        ({"a.weight_scale": np.full(3, np.nan, np.float32)}, "`a.weight_scale` has numbers that are not finite"),
        ({"a.weight": np.zeros((3, 2), np.float32)}, "`a.weight_scale` does not belong to this model"),
        ({"a.bias": np.zeros(3, np.int8), "a.bias_scale": np.ones(3, np.float32)}, "`a.bias` is I8"),
        ({"a.bias": np.zeros(3, np.int16), "a.bias_scale": np.ones(3, np.float32)}, "integers of several kinds"),
        ({"a.weight": np.zeros((3, 2), np.int32)}, "`a.weight_scale` does not belong"),
    ],
)
def test_wrong_integers_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    changed = {name: array for name, array in {**QUANTIZED, **changes}.items() if array is not None}
    write_tensors(changed, tmp_path / "file")
    with pytest.raises(ModelError, match=message):
        read_weights(tmp_path / "file", SHAPES)
