"""Encoder and decoder layers: sublayers, residual connections and layer norm (Vaswani et al. 2017, section 3.1).

The paper normalizes after the residual connection. Normalizing before the sublayer (`norm_first`) is the default here,
because it trains without a careful warm-up (Xiong et al. 2020).
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.config import ModelSettings
from dragoman.model.attention import Mask, MultiHeadAttention
from dragoman.model.feed_forward import FeedForward


class Residual(nn.Module):
    """The connection around a sublayer.

    norm_first: x + dropout(sublayer(norm(x))). Otherwise, as in the paper: norm(x + dropout(sublayer(x))).
    """

    def __init__(self, d_model: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def extra_repr(self) -> str:
        """Where the norm is, for `print(model)`."""
        return f"norm_first={self.norm_first}"

    def forward(self, hidden: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        """The sublayer's output added to its input."""
        if self.norm_first:
            return hidden + self.dropout(sublayer(self.norm(hidden)))  # type: ignore[no-any-return]
        return self.norm(hidden + self.dropout(sublayer(hidden)))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attn = _attention(settings)
        self.self_attn_residual = _residual(settings)
        self.feed_forward = _feed_forward(settings)
        self.feed_forward_residual = _residual(settings)

    def forward(
        self, hidden: Float[Tensor, "B S D"], mask: Mask, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "B S D"]:
        """`mask` broadcasts to (B, H, S, S). The attention weights are appended to `weights`."""
        hidden = self.self_attn_residual(hidden, lambda x: self.self_attn(x, x, x, mask, weights))
        return self.feed_forward_residual(hidden, self.feed_forward)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then feed-forward."""

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
        self_mask: Mask,
        memory_mask: Mask,
        self_weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The masks broadcast to (B, H, T, T) and (B, H, T, S). The attention weights are appended to the lists."""
        hidden = self.self_attn_residual(hidden, lambda x: self.self_attn(x, x, x, self_mask, self_weights))
        hidden = self.cross_attn_residual(
            hidden, lambda x: self.cross_attn(x, memory, memory, memory_mask, cross_weights)
        )
        return self.feed_forward_residual(hidden, self.feed_forward)  # type: ignore[no-any-return]


def _attention(settings: ModelSettings) -> MultiHeadAttention:
    return MultiHeadAttention(settings.d_model, settings.num_heads, settings.attention_dropout, settings.attention_bias)


def _residual(settings: ModelSettings) -> Residual:
    return Residual(settings.d_model, settings.dropout, settings.norm_first)


def _feed_forward(settings: ModelSettings) -> FeedForward:
    return FeedForward(settings.d_model, settings.d_ff, settings.activation_dropout, settings.activation)
