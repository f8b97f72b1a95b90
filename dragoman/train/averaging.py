"""The mean of several checkpoints' weights (Vaswani et al. 2017, section 6.1, averages the last 5)."""

from collections.abc import Sequence
from pathlib import Path

import torch

from dragoman.files import checked_manifest
from dragoman.model.transformer import Transformer
from dragoman.train.checkpoint import load_weights


def averaged_weights(folders: Sequence[Path], model: Transformer) -> dict[str, torch.Tensor]:
    """The mean of each tensor over the given checkpoints, summed in float64.

    `model` says which names and shapes there must be. Raises ModelError that names a damaged file.
    """
    sums: dict[str, torch.Tensor] = {}
    for folder in folders:
        checked_manifest(folder)
        for name, tensor in load_weights(folder, model).items():
            sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    return {name: (total / len(folders)).float() for name, total in sums.items()}
