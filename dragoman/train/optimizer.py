"""Adam (Vaswani et al. 2017, section 5.3), with decoupled weight decay on request; its state as plain tensors."""

import torch
from torch import Tensor, nn

from dragoman.config import TrainSettings
from dragoman.train.sharding import spread, whole

_MOMENTS = ("exp_avg", "exp_avg_sq")


def build_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.AdamW:
    """Fused AdamW over all parameters; with `weight_decay` 0 it is Adam. The rate is set before every step.

    Its state is there from the start, so that what does not fit into memory fails before the first step.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    for parameter in model.parameters():
        moments = {key: torch.zeros_like(parameter, requires_grad=False) for key in _MOMENTS}
        optimizer.state[parameter] = {"step": torch.zeros((), device=parameter.device), **moments}
    return optimizer


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of every parameter by name: its moments and its step count, whole."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}:{key}"] = whole(value)
    return tensors


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Puts the tensors of `optimizer_tensors` back. Raises KeyError where one is missing."""
    for name, parameter in model.named_parameters():
        state = {key: spread(tensors[f"{name}:{key}"], parameter) for key in _MOMENTS}
        optimizer.state[parameter] = {"step": tensors[f"{name}:step"].to(parameter.device), **state}
