"""Encoder and decoder layers: feed-forward and residual sublayers (Vaswani et al. 2017, sections 3.1 and 3.3).

Deviation from the paper: layer norm comes before each sublayer by default (`norm_first`), because such models train
without careful warm-up. The paper normalizes after the residual connection.

References
----------
Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", https://arxiv.org/abs/2002.04745
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from dragoman.config import ModelSettings
from dragoman.devices.checks import check_sizes, check_width
from dragoman.errors import ConfigError
from dragoman.model.attention import Cache, Mask, MultiHeadAttention

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
        """Transform each position.

        Parameters
        ----------
        hidden : (B, T, D)
            The input.

        Returns
        -------
        Tensor
            The output (B, T, D).

        Raises
        ------
        DataError
            If the input has another width than `d_model`.
        """
        check_width("hidden", hidden, self.inner.in_features)
        return self.outer(self.dropout(self.activation(self.inner(hidden))))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Residual connection and layer norm around a sublayer (sections 3.1 and 5.4).

    With `norm_first`, the output is x + dropout(sublayer(norm(x))). Without, it is norm(x + dropout(sublayer(x))), as
    in the paper.

    Parameters
    ----------
    d_model
        Width D of the layer norm.
    dropout
        Dropout rate of the sublayer's output.
    norm_first
        Whether the layer norm comes before the sublayer.
    """

    def __init__(self, d_model: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def extra_repr(self) -> str:
        """The order of norm and sublayer that `print(model)` shows."""
        return f"norm_first={self.norm_first}"

    def forward(self, hidden: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        """Add the sublayer's output to its input.

        Parameters
        ----------
        hidden : (B, T, D)
            The input.
        sublayer
            A function or module that transforms a tensor (B, T, D).

        Returns
        -------
        Tensor
            The output (B, T, D).
        """
        if self.norm_first:
            return hidden + self.dropout(sublayer(self.norm(hidden)))  # type: ignore[no-any-return]
        return self.norm(hidden + self.dropout(sublayer(hidden)))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """One encoder layer: self-attention, then the feed-forward network (section 3.1; figure 1, left).

    Parameters
    ----------
    settings : ModelSettings
        The sizes and variants of the model.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attn = _attention(settings)
        self.self_attn_residual = _residual(settings)
        self.feed_forward = _feed_forward(settings)
        self.feed_forward_residual = _residual(settings)

    def forward(
        self, hidden: Float[Tensor, "B S D"], mask: Mask | None, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "B S D"]:
        """Transform source positions.

        Parameters
        ----------
        hidden : (B, S, D)
            The input.
        mask
            Boolean, broadcastable to (B, H, S, S), True where a position may attend to another.
        weights
            If a list is given, the attention weights (B, H, S, S) are appended to it.

        Returns
        -------
        Tensor
            The output (B, S, D).
        """
        hidden = self.self_attn_residual(hidden, lambda x: self.self_attn(x, x, x, mask, weights))
        return self.feed_forward_residual(hidden, self.feed_forward)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """One decoder layer: masked self-attention, cross-attention to the memory, then feed-forward (figure 1, right).

    Parameters
    ----------
    settings : ModelSettings
        The sizes and variants of the model.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attn = _attention(settings)
        self.self_attn_residual = _residual(settings)
        self.cross_attn = _attention(settings)
        self.cross_attn_residual = _residual(settings)
        self.feed_forward = _feed_forward(settings)
        self.feed_forward_residual = _residual(settings)

    def forward(
        self,
        hidden: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        self_mask: Mask | None,
        memory_mask: Mask | None,
        weights: tuple[list[Tensor] | None, list[Tensor] | None] = (None, None),
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Transform target positions with the encoder's output, the memory.

        Parameters
        ----------
        hidden : (B, T, D)
            The input.
        memory : (B, S, D)
            The output of the encoder.
        self_mask, memory_mask
            Boolean, True where a position may attend to a position of the target, and of the memory. They broadcast to
            (B, H, T, T) and (B, H, T, S).
        weights
            If the first or second entry is a list, the weights of self-attention or of cross-attention are appended to
            it.
        cache
            If a dict is given, `hidden` has new positions only, and they attend to earlier ones, too.

        Returns
        -------
        Tensor
            The output (B, T, D).
        """
        self_weights, cross_weights = weights
        hidden = self.self_attn_residual(hidden, lambda x: self.self_attn(x, x, x, self_mask, self_weights, cache))
        hidden = self.cross_attn_residual(
            hidden, lambda x: self.cross_attn(x, memory, memory, memory_mask, cross_weights, cache)
        )
        return self.feed_forward_residual(hidden, self.feed_forward)  # type: ignore[no-any-return]


def _attention(settings: ModelSettings) -> MultiHeadAttention:
    return MultiHeadAttention(settings.d_model, settings.num_heads, settings.attention_dropout, settings.attention_bias)


def _residual(settings: ModelSettings) -> Residual:
    return Residual(settings.d_model, settings.dropout, settings.norm_first)


def _feed_forward(settings: ModelSettings) -> FeedForward:
    return FeedForward(settings.d_model, settings.d_ff, settings.activation_dropout, settings.activation)
