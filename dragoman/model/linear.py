"""Products with the weights, x W^T + b, at row counts that the CPU's library has met before.

For every new shape of a bfloat16 product, oneDNN writes a kernel of its own, which takes as long as one or two such
products of a small model. Batches of text come in hundreds of shapes, so there are never enough kernels. Rows are
therefore padded with zeros to a multiple of 64: some dozen shapes, and a quarter of a small model's training time.
float32 products (MKL) and other devices need none of this.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from dragoman.model import fused

_STEP = 64


class PaddedLinear(nn.Linear):
    """torch's own layer, computed by `padded_linear`."""

    def forward(self, input: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        """x W^T + b."""
        return padded_linear(input, self.weight, self.bias)


def padded_linear(
    hidden: Float[Tensor, "*rows in"], weight: Float[Tensor, "out in"], bias: Float[Tensor, "out"] | None
) -> Float[Tensor, "*rows out"]:
    """x W^T + b, as torch.nn.functional.linear computes it."""
    count = hidden.numel() // hidden.size(-1)
    missing = missing_rows(count, hidden)
    if count and fused.active(hidden):
        return fused.linear(hidden, weight, bias, count + missing)
    if not missing:
        return functional.linear(hidden, weight, bias)
    padded = functional.pad(hidden.reshape(count, -1), (0, 0, 0, missing))
    return functional.linear(padded, weight, bias)[:count].view(*hidden.shape[:-1], -1)


def missing_rows(count: int, like: Tensor) -> int:
    """How many rows to add to `count` rows of the type and on the device of `like`, before they are multiplied."""
    return -count % _STEP if like.dtype == torch.bfloat16 and like.device.type == "cpu" else 0
