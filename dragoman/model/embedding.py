"""Token embeddings and positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional


def sinusoidal_positions(
    length: int, d_model: int, start: int = 0, device: torch.device | None = None
) -> Float[Tensor, "{length} {d_model}"]:
    """sin(pos / 10000^(2i/d)) in the even dimensions, cos of the same in the odd ones (section 3.5).

    Computed for positions `start` to `start + length - 1`, so there is no longest sequence. `d_model` must be even.
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

    The weights are normal with standard deviation d_model^-0.5, not Xavier uniform: times sqrt(d_model) they have unit
    variance, like the sinusoids beside them. As a projection (tied weights) they give logits of about unit variance
    for normalized states, so training starts from a flat distribution.
    """

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
        self._compute_positions = marian_positions if positions == "marian" else sinusoidal_positions
        self.dropout = nn.Dropout(dropout)

    def extra_repr(self) -> str:
        """Sizes, for `print(model)`."""
        positions = self._compute_positions.__name__ if self.positions is None else f"{len(self.positions)} learned"
        return f"{self.weight.size(0)}, {self.weight.size(1)}, positions={positions}"

    def forward(self, ids: Int64[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Embed ids at positions 0, 1, ... Raises ValueError if learned positions end before the ids do."""
        tokens = functional.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))
        return self.dropout(tokens + self.table(0, ids.size(1)))  # type: ignore[no-any-return]

    def table(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """The vectors of positions `start` to `start + length - 1`. Raises ValueError as `forward` does."""
        if self.positions is None:
            d_model = self.weight.size(1)
            return self._compute_positions(length, d_model, start, self.weight.device).to(self.weight.dtype)
        if start + length > self.positions.size(0):
            raise ValueError(f"position {start + length} is beyond the {self.positions.size(0)} learned positions")
        return self.positions[start : start + length]
