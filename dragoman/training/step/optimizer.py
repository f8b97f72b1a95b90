"""Adam (Vaswani et al. 2017, section 5.3) with decoupled weight decay on request, or Muon for matrices (Jordan 2024).

The state is plain tensors, one set per parameter. So is the running mean of the weights, if one is kept.

Muon (Jordan 2024, https://kellerjordan.github.io/posts/muon): momentum whose matrices are made nearly orthogonal.

``torch.optim.Muon`` takes the same steps, but one matrix at a time and always in bfloat16, which is many times slower
on a processor that does not multiply in it. Here matrices of the same shape are computed together, in the precision
that the device multiplies in.

Learning-rate schedules (Vaswani et al. 2017, section 5.3).

With warm-up w, model width d and learning rate r, the rates at step t are:

=============  ==================================================
noam           r d^-0.5 min(t^-0.5, t w^-1.5), equation 3 times r
inverse_sqrt   r min(t / w, (w / t)^0.5)
constant       r min(1, t / w)
linear         r min(1, t / w) s
cosine         r min(1, t / w) (1 - cos(pi s)) / 2
=============  ==================================================

where s falls linearly from 1 at step w to 0 at step `max_steps` + 1. So the last step still has a small rate.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainSettings
from dragoman.devices.device import resolve_precision
from dragoman.errors import ConfigError
from dragoman.training.distributed import spread, whole

EMA = "ema"
"""The key of a parameter's running mean in the state of the optimizer."""

_EMA_STEPS = "ema_steps"


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
    for parameter in others:
        moments = {key: torch.zeros_like(parameter, requires_grad=False) for key in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {**moments, "step": torch.zeros((), device=parameter.device)}
    if matrices:
        muon = Muon(matrices, settings.learning_rate, settings.weight_decay, settings.muon_momentum)
        optimizer = _CombinedOptimizer(muon, optimizer)
    if settings.ema_decay:
        _keep_running_mean(optimizer, settings.ema_decay)
    return optimizer


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The complete state of every parameter by name: its moments, step count and running mean.

    Sharded state is gathered in the memory of the CPU, because all of it may not fit into that of a GPU.
    """
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state[parameter].items():
            gathered = whole(value)
            tensors[f"{name}:{key}"] = gathered if gathered is value else gathered.cpu()
    return tensors


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The size of the `optimizer_tensors` in bytes, without the step counts."""
    return sum(4 * value.numel() for state in optimizer.state.values() for value in state.values() if value.dim())


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state from the tensors of `optimizer_tensors`. Raises KeyError if one is missing."""
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        for key, before in state.items():
            value = tensors[f"{name}:{key}"]
            state[key] = spread(value, parameter) if value.shape == parameter.shape else value.to(before.device)


class _CombinedOptimizer(torch.optim.Optimizer):
    """Several optimizers of different parameters as one. It shares their groups and states."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._parts = parts
        for part in parts:
            self.state |= part.state
            part.state = self.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Step all optimizers."""
        for part in self._parts:
            part.step()


def _matrices(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices of the layers, and all other parameters: embeddings, projection, norms, biases."""
    found: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for name, parameter in model.named_parameters():
        is_matrix = name.startswith(("encoder.", "decoder.")) and parameter.ndim == 2
        found[0 if is_matrix else 1].append(parameter)
    return found


def _keep_running_mean(optimizer: torch.optim.Optimizer, decay: float) -> None:
    """Let each step compute mean <- d mean + (1 - d) weights. d rises to `decay`, to forget the first weights."""
    for parameter, state in optimizer.state.items():
        # The count is read at every step, so it stays on the CPU, where reading does not wait.
        state |= {EMA: parameter.detach().clone(), _EMA_STEPS: torch.zeros(())}

    @torch.no_grad()
    def update(*_: Any) -> None:
        for parameter, state in optimizer.state.items():
            steps = int(state[_EMA_STEPS])
            if steps:
                state[EMA].lerp_(parameter, 1 - min(decay, (1 + steps) / (10 + steps)))
            else:
                state[EMA].copy_(parameter)
            state[_EMA_STEPS] += 1

    optimizer.register_step_post_hook(update)


MOMENTUM = "momentum_buffer"
"""The key of a matrix's momentum in the state of the optimizer."""

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_SMALLEST_NORM = 1e-7
_RMS_OF_ADAM = 0.2
_NUMBERS_AT_ONCE = 1 << 24  # limits the memory of a batch of matrices, which is copied about four times


class Muon(torch.optim.Optimizer):
    """Orthogonalized Nesterov momentum, with updates scaled to the size of Adam's (Liu et al. 2025, equation 4).

    Only for matrices. The state of each has its momentum under `MOMENTUM`. Weight decay is decoupled.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        for matrix in self.param_groups[0]["params"]:
            self.state[matrix][MOMENTUM] = torch.zeros_like(matrix, requires_grad=False)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            for matrices in _batches_by_shape(each for each in group["params"] if each.grad is not None):
                updates = orthogonalize(torch.stack(self._momentum(matrices, group["momentum"])))
                rate = group["lr"] * _RMS_OF_ADAM * math.sqrt(max(matrices[0].shape))
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, updates.unbind(), alpha=-rate)

    def _momentum(self, matrices: Sequence[Tensor], momentum: float) -> tuple[Tensor, ...]:
        """Add the gradients to their running means, and return the means one step ahead (Nesterov)."""
        gradients = [each.grad for each in matrices if each.grad is not None]
        means = [self.state[each][MOMENTUM] for each in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return tuple(torch._foreach_lerp(gradients, means, momentum))


def orthogonalize(matrices: Tensor) -> Tensor:
    """The `matrices` (count, rows, columns) with their singular values replaced by values from 0.7 to 1.2.

    Five iterations of a fifth-order polynomial, in the precision that the device multiplies in. Singular values below
    about a thousandth of the norm stay smaller.
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    found = (matrices.mT if is_tall else matrices).to(resolve_precision("auto", matrices.device))
    found = found / found.norm(dim=(1, 2), keepdim=True).clamp(min=_SMALLEST_NORM)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        squares = found @ found.mT
        found = torch.baddbmm(found, torch.baddbmm(squares, squares, squares, beta=b, alpha=c), found, beta=a)
    return found.mT if is_tall else found


def _batches_by_shape(matrices: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Lists of matrices with the same shape and device, within the limit for one batch."""
    groups: dict[Any, list[Tensor]] = defaultdict(list)
    for each in matrices:
        groups[each.shape, each.device].append(each)
    for group in groups.values():
        most = max(1, _NUMBERS_AT_ONCE // group[0].numel())
        yield from (group[start : start + most] for start in range(0, len(group), most))


def learning_rate(step: int, settings: TrainSettings, d_model: int) -> float:
    """The learning rate of an optimizer step.

    With the schedule "noam", it is the paper's (section 5.3, equation 3): d_model^-0.5 min(step^-0.5,
    step warmup_steps^-1.5), times `settings.learning_rate`. With the others, it rises linearly to
    `settings.learning_rate`, and then stays or falls.

    Parameters
    ----------
    step : int
        Number of the step, counted from 1.
    settings : TrainSettings
        `schedule`, `learning_rate`, `warmup_steps`, and for "linear" and "cosine" `max_steps`.
    d_model : int
        Width of the model, for "noam".

    Returns
    -------
    float
        The learning rate.

    Raises
    ------
    ConfigError
        If `step` is below 1.

    Examples
    --------
    >>> paper = TrainSettings(schedule="noam", learning_rate=1.0, warmup_steps=4000)
    >>> round(learning_rate(4000, paper, d_model=512), 6)
    0.000699
    """
    if step < 1:
        raise ConfigError(f"`step` must be at least 1, the first step, but is {step}.")
    warmup = max(settings.warmup_steps, 1)
    if settings.schedule == "noam":
        return settings.learning_rate / math.sqrt(d_model) * min(1 / math.sqrt(step), step / math.sqrt(warmup) ** 3)
    rise = min(1.0, step / warmup)
    if settings.schedule == "inverse_sqrt":
        return settings.learning_rate * min(rise, math.sqrt(warmup / step))
    if settings.schedule in ("linear", "cosine"):
        left = 1 - min(1.0, max(0, step - warmup) / (settings.max_steps + 1 - warmup))
        share = left if settings.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2
        return settings.learning_rate * rise * share
    return settings.learning_rate * rise
