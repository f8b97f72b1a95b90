"""Means of weights: of several checkpoints, as in Vaswani et al. 2017 (section 6.1), or running, over all steps.

`means_of` lists the candidates that the settings name, and `choose_mean` of `trainer.py` scores them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from dragoman.bundle.folder import mean_weights
from dragoman.config import TrainSettings
from dragoman.errors import ModelError
from dragoman.files import verify_folder
from dragoman.model.transformer import Transformer
from dragoman.training.run.checkpoint import OPTIMIZER
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.run.state import TrainState, ValidationRecord
from dragoman.training.step.optimizer import EMA


@dataclass(frozen=True, slots=True)
class Mean:
    """One way to average a run's weights: the mean of the checkpoints at `steps`.

    With `ema_decay`, the running mean that the single checkpoint in `steps` holds.
    """

    name: str
    steps: tuple[int, ...]
    ema_decay: float = 0.0

    def weights(self, run: RunFolder, model: Transformer) -> dict[str, torch.Tensor]:
        """The tensors by name, float32. Raises ModelError that names a damaged file."""
        folders = [run.step_folder(step) for step in self.steps]
        return running_mean(folders[0], model) if self.ema_decay else averaged_weights(folders, model)


def means_of(kept: Collection[int], state: TrainState, settings: TrainSettings) -> list[Mean]:
    """The distinct means that the settings request and that can be computed from the checkpoints `kept`."""
    last = [record.step for record in state.validations if record.step in kept]
    last = last[-settings.average_last :] if settings.average_last else []
    best = [step for step in best_steps(state.validations, settings.average_best) if step in kept]
    means = [Mean(f"Average of {len(last)} checkpoints", tuple(last))] if len(last) > 1 else []
    if len(best) > 1 and set(best) != set(last):
        means.append(Mean(f"Average of the {len(best)} best checkpoints", tuple(sorted(best))))
    if settings.ema_decay and state.step in kept:
        means.append(Mean(f"Running mean with decay {settings.ema_decay:g}", (state.step,), settings.ema_decay))
    return means


def best_steps(validations: Sequence[ValidationRecord], count: int) -> Collection[int]:
    """The steps of the `count` validations with the highest scores. Of equal scores, the earlier ones win."""
    ordered = sorted(validations, key=lambda record: (-record.score, record.step))
    return [record.step for record in ordered[:count]]


def averaged_weights(folders: Sequence[Path], model: Transformer) -> dict[str, torch.Tensor]:
    """The mean of each tensor over the given checkpoints. Raises ModelError unless they fit `model`."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    return {name: torch.from_numpy(array) for name, array in mean_weights(folders, shapes).items()}


def running_mean(folder: Path, model: Transformer) -> dict[str, torch.Tensor]:
    """The running mean of the weights in a checkpoint. Raises ModelError if the checkpoint has none."""
    verify_folder(folder)
    try:
        tensors = load_file(folder / OPTIMIZER)
        return {name: tensors[f"{name}:{EMA}"] for name, _ in model.named_parameters()}
    except (OSError, KeyError, SafetensorError) as error:
        raise ModelError(f"{folder / OPTIMIZER} holds no running mean of the weights: {error}.") from None
