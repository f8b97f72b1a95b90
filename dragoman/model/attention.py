"""Scaled dot-product attention and multi-head attention (Vaswani et al. 2017, section 3.2)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from dragoman.model.dropout import Dropout

# Up to this many keys, plain matrix products beat the fused kernel on a CPU (measured: benchmarks/attention_paths.py).
PLAIN_MAX_KEYS_ON_CPU = 64


def attention_weights(
    query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "B H T S"]:
    """softmax(Q K^T / sqrt(K)) over the keys that `mask` lets through (equation 1).

    Every query must be allowed at least one key. Masked weights are exactly 0.
    """
    scores = (query * (1.0 / math.sqrt(query.size(-1)))) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, dim=-1)


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
        self.out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        for block in self.in_weight.data.chunk(3):
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.out.weight)
        if bias:
            nn.init.zeros_(self.out.bias)

    def forward(self, hidden: Float[Tensor, "B T D"], mask: Bool[Tensor, "..."] | None) -> Float[Tensor, "B T D"]:
        """Self-attention: query, key and value all come from `hidden`."""
        query, key, value = self.project(hidden)
        return self.merge(self.attend(query, key, value, mask))

    def project(self, hidden: Float[Tensor, "B T D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of self-attention, each (B, H, T, K)."""
        query, key, value = functional.linear(hidden, self.in_weight, self.in_bias).chunk(3, dim=-1)
        return self._split(query), self._split(key), self._split(value)

    def project_query(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        """The query of cross-attention, from the decoder."""
        width = hidden.size(-1)
        return self._split(functional.linear(hidden, self.in_weight[:width], _rows(self.in_bias, 0, width)))

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> tuple[Tensor, Tensor]:
        """Key and value of cross-attention, from the encoder's output, each (B, H, S, K)."""
        width = memory.size(-1)
        both = functional.linear(memory, self.in_weight[width:], _rows(self.in_bias, width, 3 * width))
        key, value = both.chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S K"],
        mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "B H T K"]:
        """The weighted sums of the values, by whichever way is fastest for this shape and device."""
        if query.device.type == "cpu" and key.size(-2) <= PLAIN_MAX_KEYS_ON_CPU:
            weights: Tensor = self.dropout(attention_weights(query, key, mask))
            return weights @ value
        rate = self.dropout.rate if self.training else 0.0
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)

    def merge(self, heads: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
        """Heads side by side again, through the output projection."""
        rows, num_heads, length, width = heads.shape
        return self.out(heads.transpose(1, 2).reshape(rows, length, num_heads * width))  # type: ignore[no-any-return]

    def _split(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        rows, length, width = hidden.shape
        return hidden.view(rows, length, self.num_heads, width // self.num_heads).transpose(1, 2)


def _rows(bias: Tensor | None, start: int, end: int) -> Tensor | None:
    return None if bias is None else bias[start:end]
