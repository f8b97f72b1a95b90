"""Muon (Jordan 2024, https://kellerjordan.github.io/posts/muon): momentum whose matrices are made nearly orthogonal.

``torch.optim.Muon`` takes the same steps, but one matrix at a time and always in bfloat16, which is many times slower
on a processor that does not multiply in it. Here matrices of the same shape are computed together, in the precision
that the device multiplies in.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.devices.device import resolve_precision

MOMENTUM = "momentum_buffer"
"""The key of a matrix's momentum in the state of the optimizer."""

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_SMALLEST_NORM = 1e-7
_RMS_OF_ADAM = 0.2
_NUMBERS_AT_ONCE = 1 << 24  # limits the memory of a batch of matrices, which is copied about four times


class Muon(torch.optim.Optimizer):
    """Orthogonalized Nesterov momentum, with updates scaled to the size of Adam's (Liu et al. 2025, equation 4).

    Only for matrices. The state of each must have its momentum under `MOMENTUM` before the first step. Weight decay is
    decoupled.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            for matrices in _batches_by_shape(each for each in group["params"] if each.grad is not None):
                updates = orthogonalize(torch.stack([self._momentum(each, group["momentum"]) for each in matrices]))
                rate = group["lr"] * _RMS_OF_ADAM * math.sqrt(max(matrices[0].shape))
                for matrix, update in zip(matrices, updates, strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-rate)

    def _momentum(self, matrix: Tensor, momentum: float) -> Tensor:
        """Add the gradient to the running mean, and return the mean one step ahead (Nesterov)."""
        gradient, mean = matrix.grad, self.state[matrix][MOMENTUM]
        assert gradient is not None
        mean.lerp_(gradient, 1 - momentum)
        return gradient.lerp(mean, momentum)


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


def _batches_by_shape(matrices: Iterable[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Lists of matrices with the same shape and device, within the limit for one batch."""
    groups: dict[Any, list[nn.Parameter]] = defaultdict(list)
    for each in matrices:
        groups[each.shape, each.device].append(each)
    for group in groups.values():
        most = max(1, _NUMBERS_AT_ONCE // group[0].numel())
        yield from (group[start : start + most] for start in range(0, len(group), most))
