"""Position-wise feed-forward networks (Vaswani et al. 2017, section 3.3)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "swish": functional.silu,
}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 at every position by itself (equation 2; the paper's activation is relu)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float, activation: str) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def extra_repr(self) -> str:
        """The activation, for `print(model)`."""
        return f"activation={self.activation.__name__}"

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Transform each position alone, with dropout between the two products."""
        return self.outer(self.dropout(self.activation(self.inner(hidden))))  # type: ignore[no-any-return]
