"""Adam (Vaswani et al. 2017, section 5.3) with decoupled weight decay on request, or Muon for matrices (Jordan 2024).

The state is plain tensors, one set per parameter. So is the running mean of the weights, if one is kept.
"""

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainSettings
from dragoman.training.step.muon import MOMENTUM, Muon
from dragoman.training.step.sharding import spread, whole

EMA = "ema"
"""The key of a parameter's running mean in the state of the optimizer."""

_EMA_STEPS = "ema_steps"
_STATE = "dragoman_state"
_MOMENTS = ("exp_avg", "exp_avg_sq")


def build_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Fused AdamW for all parameters (Adam if `weight_decay` is 0), or Muon for matrices and AdamW for the rest.

    The caller sets the rate before every step, the same for all groups. With `ema_decay` each step also updates the
    running mean. All state is allocated here, so that a lack of memory is an error before the first step.
    """
    matrices, others = _matrices(model) if settings.optimizer == "muon" else ([], list(model.parameters()))
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(
        others,
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    optimizer.param_groups[0][_STATE] = (*_MOMENTS, "step")
    if matrices:
        muon = Muon(matrices, settings.learning_rate, settings.weight_decay, settings.muon_momentum)
        muon.param_groups[0][_STATE] = (MOMENTUM,)
        optimizer = _CombinedOptimizer(muon, optimizer)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {key: _initial_state(key, parameter) for key in group[_STATE]}
    if settings.ema_decay:
        _keep_running_mean(optimizer, settings.ema_decay)
    return optimizer


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The complete state of every parameter by name: its moments, step count and running mean.

    Sharded state is gathered in the memory of the CPU, because all of it may not fit into that of a GPU.
    """
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            gathered = whole(value)
            tensors[f"{name}:{key}"] = gathered if gathered is value else gathered.cpu()
    return tensors


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The size of the `optimizer_tensors` in bytes, without the step counts."""
    return sum(
        4 * parameter.numel() * len(set(group[_STATE]) - {"step", _EMA_STEPS})
        for group in optimizer.param_groups
        for parameter in group["params"]
    )


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state from the tensors of `optimizer_tensors`. Raises KeyError if one is missing."""
    keys = {parameter: group[_STATE] for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in model.named_parameters():
        saved = {key: tensors[f"{name}:{key}"] for key in keys[parameter]}
        optimizer.state[parameter] = {
            key: value.cpu() if key == _EMA_STEPS else _place_like(value, parameter) for key, value in saved.items()
        }


def _initial_state(key: str, parameter: Tensor) -> Tensor:
    """The state of a parameter before the first step."""
    if key == "step":
        return torch.zeros((), device=parameter.device)
    return torch.zeros_like(parameter, requires_grad=False)


def _place_like(value: Tensor, parameter: Tensor) -> Tensor:
    """A part of the state on the device of its parameter, and sharded like it."""
    return spread(value, parameter) if value.shape == parameter.shape else value.to(parameter.device)


class _CombinedOptimizer(torch.optim.Optimizer):
    """Several optimizers of different parameters as one. It shares their groups and states."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._parts = parts
        for part in parts:
            part.state = self.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Step all optimizers."""
        for part in self._parts:
            part.step()


def _matrices(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices of the layers, and all other parameters: embeddings, projection, norms, biases."""
    within = {id(parameter) for name in ("encoder", "decoder") for parameter in getattr(model, name).parameters()}
    matrices = [each for each in model.parameters() if id(each) in within and each.ndim == 2]
    chosen = {id(each) for each in matrices}
    return matrices, [each for each in model.parameters() if id(each) not in chosen]


def _keep_running_mean(optimizer: torch.optim.Optimizer, decay: float) -> None:
    """Let each step compute mean <- d mean + (1 - d) weights. d rises to `decay`, to forget the first weights."""
    for group in optimizer.param_groups:
        group[_STATE] = (*group[_STATE], EMA, _EMA_STEPS)
        for parameter in group[
            "params"
        ]:  # the count is read at every step, so it stays on the CPU, where reading does not wait
            optimizer.state[parameter] |= {EMA: parameter.detach().clone(), _EMA_STEPS: torch.zeros(())}

    @torch.no_grad()
    def update(*_: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state[parameter]
                steps = int(state[_EMA_STEPS])
                if steps:
                    state[EMA].lerp_(parameter, 1 - min(decay, (1 + steps) / (10 + steps)))
                else:
                    state[EMA].copy_(parameter)
                state[_EMA_STEPS] += 1

    optimizer.register_step_post_hook(update)
