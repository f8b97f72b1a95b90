"""Dropout (Vaswani et al. 2017, section 5.4; Srivastava et al. 2014).

On a CPU, drawing one uniform number an element takes about a fifth of a training step of a small model. One random
byte an element is enough: the rate is rounded to a multiple of 1/256, and what is kept is scaled by the rate
actually used, so that the expectation stays exact.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

_BYTE_VALUES = 256


def byte_rate(rate: float) -> float:
    """The multiple of 1/256 nearest to `rate`, at least 1/256 where `rate` is not 0."""
    return max(1, round(rate * _BYTE_VALUES)) / _BYTE_VALUES if rate > 0 else 0.0


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` in training and scales the others by 1 / (1 - rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def extra_repr(self) -> str:
        """What torch prints of the module."""
        return f"rate={self.rate}"

    def forward(self, hidden: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The same shape; draws from torch's default generator of the device."""
        if not self.training or self.rate == 0:
            return hidden
        if hidden.device.type != "cpu":
            return functional.dropout(hidden, self.rate)
        threshold = round(byte_rate(self.rate) * _BYTE_VALUES)
        words = torch.empty((hidden.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        kept = words.view(torch.uint8)[: hidden.numel()].view(hidden.shape) >= threshold
        return _KeepAndScale.apply(hidden, kept, _BYTE_VALUES / (_BYTE_VALUES - threshold))  # type: ignore[no-untyped-call, no-any-return]


class _KeepAndScale(torch.autograd.Function):
    """hidden * kept * scale, with a backward pass that keeps one byte an element and no float mask."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, hidden: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale  # type: ignore[attr-defined]
        return (hidden * kept).mul_(scale)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return (grads[0] * kept).mul_(ctx.scale), None, None  # type: ignore[attr-defined]
