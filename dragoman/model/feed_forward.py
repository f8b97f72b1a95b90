"""Position-wise feed-forward networks (Vaswani et al. 2017, section 3.3)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from dragoman.model import fused
from dragoman.model.dropout import Dropout
from dragoman.model.linear import PaddedLinear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "swish": functional.silu,
}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 at every position by itself (equation 2; the paper's activation is relu)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float, activation: str) -> None:
        super().__init__()
        self.inner = PaddedLinear(d_model, d_ff)
        self.outer = PaddedLinear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Each position is transformed alone; `dropout` acts between the two products."""
        inner = self.inner(hidden)
        if self.activation is functional.relu and fused.active(inner):
            return self.outer(fused.relu_dropout(inner, self.dropout.bits(*inner.shape)))  # type: ignore[no-any-return]
        return self.outer(self.dropout(self.activation(inner)))  # type: ignore[no-any-return]
