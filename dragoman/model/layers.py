"""Encoder and decoder layers: sublayers, residuals and layer norm (Vaswani et al. 2017, section 3.1).

The paper normalises after the residual; before it (`norm_first`) is the default here, because it trains without
careful warm-up (Xiong et al. 2020).
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.config import ModelSettings
from dragoman.model import fused
from dragoman.model.attention import MultiHeadAttention, attention_weights
from dragoman.model.cache import LayerCache
from dragoman.model.dropout import Dropout
from dragoman.model.feed_forward import FeedForward

Mask = Bool[Tensor, "..."]


class Residual(nn.Module):
    """The shell of a sublayer: `enter`, then the sublayer, then `leave`.

    norm_first: x + dropout(sublayer(norm(x))). Else, as in the paper: norm(x + dropout(sublayer(x))).
    """

    def __init__(self, d_model: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def enter(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What the sublayer reads."""
        return apply_norm(self.norm, hidden) if self.norm_first else hidden

    def leave(self, hidden: Float[Tensor, "B T D"], output: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The sublayer's output added to what went in."""
        if fused.active(hidden):
            total = fused.add_dropout(hidden, output, self.dropout.bits(*output.shape))
        else:
            total = hidden + self.dropout(output)
        return total if self.norm_first else apply_norm(self.norm, total)


def apply_norm(norm: nn.Module, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
    """The layer norm of the last dimension, or what else stands in its place."""
    if isinstance(norm, nn.LayerNorm) and fused.active(hidden):
        return fused.layer_norm(hidden, norm.weight, norm.bias, norm.eps)
    out: Tensor = norm(hidden)
    return out


def _attention(settings: ModelSettings) -> MultiHeadAttention:
    return MultiHeadAttention(settings.d_model, settings.num_heads, settings.attention_dropout, settings.attention_bias)


def _residual(settings: ModelSettings) -> Residual:
    return Residual(settings.d_model, settings.dropout, settings.norm_first)


def _feed_forward(settings: ModelSettings) -> FeedForward:
    return FeedForward(settings.d_model, settings.d_ff, settings.activation_dropout, settings.activation)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attn = _attention(settings)
        self.self_attn_residual = _residual(settings)
        self.feed_forward = _feed_forward(settings)
        self.feed_forward_residual = _residual(settings)

    def forward(self, hidden: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        """`mask` broadcasts to (B, H, S, S)."""
        shell = self.self_attn_residual
        hidden = shell.leave(hidden, self.self_attn(shell.enter(hidden), mask))
        shell = self.feed_forward_residual
        return shell.leave(hidden, self.feed_forward(shell.enter(hidden)))

    def attention(self, hidden: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B H S S"]:
        """The weights that `forward` uses on this input, without dropout."""
        query, key, _ = self.self_attn.project(self.self_attn_residual.enter(hidden))
        return attention_weights(query, key, mask)


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
        self, hidden: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], self_mask: Mask, memory_mask: Mask
    ) -> Float[Tensor, "B T D"]:
        """Masks broadcast to (B, H, T, T) and (B, H, T, S)."""
        shell = self.self_attn_residual
        hidden = shell.leave(hidden, self.self_attn(shell.enter(hidden), self_mask))
        shell = self.cross_attn_residual
        hidden = shell.leave(hidden, self.cross_attn.across(shell.enter(hidden), memory, memory_mask))
        return self._apply_feed_forward(hidden)

    def step(
        self, hidden: Float[Tensor, "N 1 D"], cache: LayerCache, length: int, memory_mask: Mask
    ) -> Float[Tensor, "N 1 D"]:
        """One more position after `length` earlier ones, whose keys and values are in `cache`."""
        shell = self.self_attn_residual
        query, key, value = self.self_attn.project(shell.enter(hidden))
        keys, values = cache.append(key, value, length)
        output = self.self_attn.merge(self.self_attn.attend(query, keys, values, None))
        hidden = shell.leave(hidden, output)
        # The hypotheses of a sentence stand where positions stand in a full pass: they share its keys and values.
        rows, _, width = hidden.shape
        sentences = cache.cross_keys.size(0)
        grouped = hidden.view(sentences, rows // sentences, width)
        shell, cross = self.cross_attn_residual, self.cross_attn
        query = cross.project_query(shell.enter(grouped))
        seen = cross.merge(cross.attend(query, cache.cross_keys, cache.cross_values, memory_mask))
        return self._apply_feed_forward(shell.leave(grouped, seen)).reshape(rows, 1, width)

    def attention(
        self, hidden: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], self_mask: Mask, memory_mask: Mask
    ) -> tuple[Tensor, Tensor]:
        """The weights of self-attention (B, H, T, T) and cross-attention (B, H, T, S) on this input."""
        shell = self.self_attn_residual
        query, key, _ = self.self_attn.project(shell.enter(hidden))
        hidden = shell.leave(hidden, self.self_attn(shell.enter(hidden), self_mask))
        cross_query = self.cross_attn.project_query(self.cross_attn_residual.enter(hidden))
        cross_key, _ = self.cross_attn.project_memory(memory)
        return attention_weights(query, key, self_mask), attention_weights(cross_query, cross_key, memory_mask)

    def _apply_feed_forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        shell = self.feed_forward_residual
        return shell.leave(hidden, self.feed_forward(shell.enter(hidden)))
