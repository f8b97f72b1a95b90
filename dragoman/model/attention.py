"""Scaled dot-product attention and multi-head attention (Vaswani et al. 2017, section 3.2)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from dragoman.model import fused
from dragoman.model.dropout import Dropout
from dragoman.model.linear import PaddedLinear, padded_linear

# Up to this many keys, plain matrix products beat the fused kernel on a CPU (measured: docs/log.md, 2026-11-20).
PLAIN_MAX_KEYS_ON_CPU = 64


def attention_weights(
    query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "B H T S"]:
    """softmax(Q K^T / sqrt(K)) over the keys that `mask` lets through (equation 1).

    Every query must be allowed at least one key. Masked weights are exactly 0.
    """
    scores = (query * (1.0 / math.sqrt(query.size(-1)))) @ key.transpose(-2, -1)
    if scores.device.type == "cpu" and scores.size(-1) <= PLAIN_MAX_KEYS_ON_CPU:
        weights: Tensor = _ShortSoftmax.apply(scores, mask)  # type: ignore[no-untyped-call]
        return weights
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), dim=-1)


class _ShortSoftmax(torch.autograd.Function):
    """The masked softmax over a short last dimension, computed with that dimension first.

    On a CPU, torch's softmax takes some hundred nanoseconds a row however short; along the first dimension it works on
    many rows at once, and is six times as fast at 14 keys, both ways, with the copies there and back.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, scores: Tensor, mask: Tensor | None) -> Tensor:
        keys_first = scores.permute(3, 0, 1, 2).contiguous()
        if mask is not None:
            keys_first.masked_fill_((~mask).expand(scores.shape).permute(3, 0, 1, 2), -math.inf)
        weights = torch.softmax(keys_first, dim=0)
        ctx.save_for_backward(weights)
        return weights.permute(1, 2, 3, 0).contiguous()

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors  # type: ignore[attr-defined]
        grad = grads[0].permute(3, 0, 1, 2).contiguous()
        grad = torch._softmax_backward_data(grad, weights, 0, weights.dtype)
        return grad.permute(1, 2, 3, 0).contiguous(), None


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each on its own projection of width K = d_model / num_heads (section 3.2.2).

    The projections of query, key and value stand below each other in `in_weight` (3 D, D), so that self-attention
    is one matrix product. Each D x D block is initialised by itself (Xavier uniform); biases start at 0.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.in_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_bias = nn.Parameter(torch.zeros(3 * d_model)) if bias else None
        self.out = PaddedLinear(d_model, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        for block in self.in_weight.data.chunk(3):
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.out.weight)
        if bias:
            nn.init.zeros_(self.out.bias)

    def forward(self, hidden: Float[Tensor, "B T D"], mask: Bool[Tensor, "..."] | None) -> Float[Tensor, "B T D"]:
        """Self-attention: query, key and value all come from `hidden`."""
        if fused.attention_active(hidden, hidden.size(1), self.num_heads):
            packed = padded_linear(hidden, self.in_weight, self.in_bias)
            heads = fused.self_attention(packed, mask, self.num_heads, self._dropout_bits(hidden, hidden))
            return self.out(heads)  # type: ignore[no-any-return]
        query, key, value = self.project(hidden)
        return self.merge(self.attend(query, key, value, mask))

    def across(
        self, hidden: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], mask: Bool[Tensor, "..."] | None
    ) -> Float[Tensor, "B T D"]:
        """Cross-attention: the query comes from `hidden`, key and value from `memory`."""
        if fused.attention_active(hidden, memory.size(1), self.num_heads):
            width = hidden.size(-1)
            query = padded_linear(hidden, self.in_weight[:width], _rows(self.in_bias, 0, width))
            packed = padded_linear(memory, self.in_weight[width:], _rows(self.in_bias, width, 3 * width))
            heads = fused.cross_attention(query, packed, mask, self.num_heads, self._dropout_bits(hidden, memory))
            return self.out(heads)  # type: ignore[no-any-return]
        query = self.project_query(hidden)
        return self.merge(self.attend(query, *self.project_memory(memory), mask))

    def _dropout_bits(self, hidden: Tensor, memory: Tensor) -> fused.DropoutBits:
        return self.dropout.bits(hidden.size(0), self.num_heads, hidden.size(1), memory.size(1))

    def project(self, hidden: Float[Tensor, "B T D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of self-attention, each (B, H, T, K)."""
        query, key, value = self._split(padded_linear(hidden, self.in_weight, self.in_bias), 3)
        return query, key, value

    def project_query(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        """The query of cross-attention, from the decoder."""
        width = hidden.size(-1)
        return self._split(padded_linear(hidden, self.in_weight[:width], _rows(self.in_bias, 0, width)), 1)[0]

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> tuple[Tensor, Tensor]:
        """Key and value of cross-attention, from the encoder's output, each (B, H, S, K)."""
        width = memory.size(-1)
        both = padded_linear(memory, self.in_weight[width:], _rows(self.in_bias, width, 3 * width))
        key, value = self._split(both, 2)
        return key, value

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S K"],
        mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H T K"]:
        """The weighted sums of the values, by whichever way is fastest for this shape and device."""
        rate = self.dropout.rate if self.training else 0.0
        # The fused kernel drops out by itself, from torch's generator; on a CPU it is slower then than plain products.
        if query.device.type == "cpu" and (key.size(-2) <= PLAIN_MAX_KEYS_ON_CPU or rate > 0):
            weights: Tensor = self.dropout(attention_weights(query, key, mask))
            return weights @ value
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)

    def merge(self, heads: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
        """Heads side by side again, through the output projection."""
        rows, num_heads, length, width = heads.shape
        by_position = heads.transpose(1, 2).to(self.out.weight.dtype)
        return self.out(by_position.reshape(rows, length, num_heads * width))  # type: ignore[no-any-return]

    def _split(self, projected: Float[Tensor, "B T PD"], parts: int) -> tuple[Tensor, ...]:
        """P projections side by side as P tensors (B, H, T, K), each contiguous: one copy for all of them.

        On a CPU they are float32: small batched products are no slower than in bfloat16, and need no kernel a shape.
        """
        rows, length, width = projected.shape
        heads = projected.view(rows, length, parts, self.num_heads, width // (parts * self.num_heads))
        working_type = torch.float32 if projected.device.type == "cpu" else projected.dtype
        packed = heads.permute(2, 0, 3, 1, 4).to(working_type, memory_format=torch.contiguous_format)
        return packed.contiguous().unbind(0)


def _rows(bias: Tensor | None, start: int, end: int) -> Tensor | None:
    return None if bias is None else bias[start:end]
