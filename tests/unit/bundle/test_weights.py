"""model.safetensors and optimizer.safetensors as numpy arrays."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from dragoman.bundle.weights import write_tensors


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
