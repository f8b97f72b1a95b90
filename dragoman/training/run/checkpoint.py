"""The checkpoints of a run. Each is a model folder with optimizer.safetensors and state.json, to continue from it.

Means of weights: of several checkpoints, as in Vaswani et al. 2017 (section 6.1), or running, over all steps.

`means_of` lists the candidates that the settings name, and `choose_mean` of `trainer.py` scores them.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from dragoman.bundle import Card, Model
from dragoman.bundle.folder import mean_weights
from dragoman.bundle.weights import WEIGHTS, read_weights, write_tensors
from dragoman.config import TrainSettings, dump_config
from dragoman.errors import CheckpointError, ModelError
from dragoman.files import disk_errors, remove_folder, require_free_space, verify_folder, write_folder
from dragoman.model.shapes import Shapes
from dragoman.model.transformer import Transformer
from dragoman.training.distributed import spread
from dragoman.training.run.run_folder import RunFolder, TrainState, ValidationRecord
from dragoman.training.step.optimizer import EMA, restore_optimizer

OPTIMIZER = "optimizer.safetensors"
_STATE = "state.json"


def save_checkpoint(run: RunFolder, model: Model, moments: dict[str, torch.Tensor], state: TrainState) -> None:
    """Write a checkpoint and update the pointers `best` and `last`.

    The checkpoint is written under a temporary name and then renamed, so it is complete or missing.

    Parameters
    ----------
    run : RunFolder
        The folder of the run.
    model : Model
        The model with everything that belongs into a model folder.
    moments : dict of str to Tensor
        The state of the optimizer by name, from `optimizer_tensors`.
    state : TrainState
        The state of the run. `state.step` names the checkpoint.

    Raises
    ------
    ResourceError
        The disk has too little space. Nothing has been written.
    """
    with disk_errors(run.checkpoints):
        run.checkpoints.mkdir(parents=True, exist_ok=True)
    parameter_bytes = 4 * sum(parameter.numel() for parameter in model.transformer.parameters())
    moment_bytes = sum(tensor.nbytes for tensor in moments.values())
    require_free_space(run.checkpoints, parameter_bytes + moment_bytes + (8 << 20))
    facts = {
        "step": state.step,
        "data_position": {"epoch": state.epoch, "step": state.step_in_epoch},
        "config_sha256": hashlib.sha256(dump_config(model.config).encode()).hexdigest(),
    }
    with write_folder(run.step_folder(state.step), model.manifest_facts() | facts) as folder:
        model.write_files(folder)
        write_tensors({name: tensor.cpu().numpy() for name, tensor in moments.items()}, folder / OPTIMIZER)
        (folder / _STATE).write_text(state.to_json(), encoding="utf-8")
    run.point_to(state)
    remove_folder(run.averaged)  # an older mean would be taken for the run's model


def restore_checkpoint(folder: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> TrainState:
    """Load the weights and the optimizer of a checkpoint into place, and return its state.

    Raises ModelError with the name of the damaged file.
    """
    verify_folder(folder)
    weights = read_weights(folder / WEIGHTS, _shapes_of(model))
    try:
        state = TrainState.from_json((folder / _STATE).read_text(encoding="utf-8"))
        tensors = load_file(folder / OPTIMIZER)
        set_weights(model, {name: torch.from_numpy(array) for name, array in weights.items()})
        restore_optimizer(model, optimizer, tensors)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"{folder} is not a checkpoint that this version can continue: {error}.") from None
    return state


def restore_latest(
    run: RunFolder, model: Transformer, optimizer: torch.optim.Optimizer
) -> tuple[TrainState, list[str]]:
    """Restore the newest intact checkpoint. Returns its state, and a line about every newer, damaged one.

    A validation whose checkpoint is lost no longer counts as the best one. Raises CheckpointError if checkpoints exist
    but none is intact.
    """
    notes: list[str] = []
    for step in reversed(run.steps()):
        try:
            state = restore_checkpoint(run.step_folder(step), model, optimizer)
        except ModelError as error:
            notes.append(f"Checkpoint {run.step_folder(step).name} is not used: {error}")
            continue
        return state, notes + _without_lost_best(run, state)
    if notes:
        raise CheckpointError(f"{run.path} has no checkpoint that can be continued. {notes[0]}")
    return TrainState(), notes


def _without_lost_best(run: RunFolder, state: TrainState) -> list[str]:
    notes: list[str] = []
    while (best := state.best) is not None and (damage := run.damage(best.step)):
        notes = notes or [f"Checkpoint {run.step_folder(best.step).name} was the best and is lost: {damage}"]
        state.validations.remove(best)
    return notes


def set_weights(model: Transformer, weights: dict[str, torch.Tensor]) -> None:
    """Copy named tensors into the model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(spread(weights[name], parameter))


def card_of(state: TrainState, card: Card) -> Card:
    """The card, with the counts of steps, sentences and tokens so far."""
    return replace(
        card, steps=state.step, epochs=state.epoch, tgt_tokens=state.tgt_tokens, minutes=round(state.seconds / 60, 2)
    )


@dataclass(frozen=True, slots=True)
class Mean:
    """One way to average a run's weights: the mean of the checkpoints at `steps`.

    With `ema_decay`, the running mean that the single checkpoint in `steps` holds.
    """

    name: str
    steps: tuple[int, ...]
    ema_decay: float = 0.0

    def weights(self, run: RunFolder, model: Transformer) -> dict[str, torch.Tensor]:
        """The tensors by name, float32. Raises ModelError that names a damaged file, or one of another model."""
        folders = [run.step_folder(step) for step in self.steps]
        if self.ema_decay:
            return _running_mean(folders[0], model)
        return {name: torch.from_numpy(array) for name, array in mean_weights(folders, _shapes_of(model)).items()}


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


def _shapes_of(model: Transformer) -> Shapes:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def _running_mean(folder: Path, model: Transformer) -> dict[str, torch.Tensor]:
    """The running mean of the weights in a checkpoint. Raises ModelError if the checkpoint has none."""
    verify_folder(folder)
    try:
        tensors = load_file(folder / OPTIMIZER)
        return {name: tensors[f"{name}:{EMA}"] for name, _ in model.named_parameters()}
    except (OSError, KeyError, SafetensorError) as error:
        raise ModelError(f"{folder / OPTIMIZER} holds no running mean of the weights: {error}.") from None
