"""Token embeddings and positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.model import fused
from dragoman.model.dropout import Dropout


def sinusoidal_positions(
    length: int, d_model: int, start: int = 0, device: torch.device | None = None
) -> Float[Tensor, "{length} {d_model}"]:
    """sin(pos / 10000^(2i/d)) in the even dimensions, cos of the same in the odd ones, for any position (section 3.5).

    Computed for positions `start` to `start + length - 1`; there is no table that runs out. `d_model` must be even.
    """
    angles = _angles(length, d_model, start, device)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def marian_positions(
    length: int, d_model: int, start: int = 0, device: torch.device | None = None
) -> Float[Tensor, "{length} {d_model}"]:
    """The same numbers as Marian lays them out: all sines in the first half, all cosines in the second."""
    angles = _angles(length, d_model, start, device)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def _angles(length: int, d_model: int, start: int, device: torch.device | None) -> Float[Tensor, "T K"]:
    positions = torch.arange(start, start + length, dtype=torch.float32, device=device)
    dimensions = torch.arange(0, d_model, 2, dtype=torch.float32, device=device)
    return positions[:, None] * torch.exp(dimensions * (-math.log(10000.0) / d_model))


class Embedding(nn.Module):
    """Ids to vectors: the embedding times sqrt(d_model) plus the position, then dropout.

    The weights are drawn from a normal distribution with standard deviation d_model^-0.5, not Xavier uniform: times
    sqrt(d_model) they then have unit variance, of the size of the sinusoids beside them, and as a projection (tied
    weights) they give logits of about unit variance for normalised states, so training starts from a flat distribution.

    Where `sums` is set, (V, D) float32, the gradient of the weights may be added to it instead of to `weight.grad`:
    that of a batch is as large as the vocabulary, and nearly all zeros.
    """

    sums: Tensor | None = None

    def __init__(
        self, vocab_size: int, d_model: int, dropout: float, positions: str = "sinusoidal", max_positions: int = 0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.positions: nn.Parameter | None = None
        if positions == "learned":
            self.positions = nn.Parameter(torch.empty(max_positions, d_model))
            nn.init.normal_(self.positions, std=0.1)
        self._computed = marian_positions if positions == "marian" else sinusoidal_positions
        self.dropout = Dropout(dropout)

    def forward(
        self, ids: Int64[Tensor, "B T"], start: int = 0, dtype: torch.dtype | None = None
    ) -> Float[Tensor, "B T D"]:
        """Embeds ids that stand at positions `start`, `start + 1`, ..., in `dtype` or the type of the weights.

        Raises ValueError where learned positions end before the sequence does.
        """
        factor, positions = math.sqrt(self.weight.size(1)), self.table(start, ids.size(1))
        dtype = self.weight.dtype if dtype is None else dtype
        if not positions.requires_grad and self.weight.dtype == torch.float32 and fused.active(self.weight):
            drawn = self.dropout.bits(*ids.shape, self.weight.size(1))
            return fused.embed(self.weight, ids, positions, drawn, dtype, self.sums)
        tokens = functional.embedding(ids, self.weight) * factor
        return self.dropout(tokens + positions).to(dtype)  # type: ignore[no-any-return]

    def table(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """What is added at positions `start` to `start + length - 1`. Raises ValueError as `forward` does."""
        if self.positions is None:
            d_model = self.weight.size(1)
            return self._computed(length, d_model, start, self.weight.device).to(self.weight.dtype)
        if start + length > self.positions.size(0):
            raise ValueError(f"position {start + length} is beyond the {self.positions.size(0)} learned positions")
        return self.positions[start : start + length]
