"""Position-wise feed-forward networks (Vaswani et al. 2017, section 3.3)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from dragoman.devices.checks import check_sizes, check_width
from dragoman.errors import ConfigError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "swish": functional.silu,
}


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, applied to each position alone.

    FFN(x) = activation(x W_1 + b_1) W_2 + b_2 (equation 2). `inner` is W_1 and b_1, `outer` is W_2 and b_2. The
    matrices start from Xavier uniform and the biases from 0.

    Deviations from the paper: the activation can be "gelu" or "swish" instead of "relu", and dropout can be applied
    to its output.

    Parameters
    ----------
    d_model
        Width D of input and output.
    d_ff
        Width F between the two layers, 4 D in the paper.
    dropout
        Dropout rate after the activation.
    activation
        A key of `ACTIVATIONS`: "relu", "gelu" or "swish".

    Raises
    ------
    ConfigError
        If a size is not a whole number above 0, or if the activation is unknown.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, activation: str = "relu") -> None:
        check_sizes(d_model=d_model, d_ff=d_ff)
        if activation not in ACTIVATIONS:
            raise ConfigError(f"`activation` must be one of {', '.join(ACTIVATIONS)}, but is {activation!r}.")
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def extra_repr(self) -> str:
        """The activation that `print(model)` shows."""
        return f"activation={self.activation.__name__}"

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Transform each position (B, T, D). Raises DataError for another width."""
        check_width("hidden", hidden, self.inner.in_features)
        return self.outer(self.dropout(self.activation(self.inner(hidden))))  # type: ignore[no-any-return]
