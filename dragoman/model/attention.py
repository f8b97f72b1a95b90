"""Scaled dot-product attention, multi-head attention and masks (Vaswani et al. 2017, section 3.2).

Shapes: B sentences, H heads, T queries, S keys, D = d_model, K = D / H (the paper's d_k and d_v).

References
----------
Vaswani et al. (2017), "Attention Is All You Need", https://arxiv.org/abs/1706.03762
"""

import math

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.devices.checks import check_attention_inputs, check_heads, check_lengths, check_mask, check_sizes
from dragoman.errors import DataError

Mask = Tensor
"""Boolean and broadcastable to (B, H, T, S), but not (B, T, S): True where a query may attend to a key."""

Cache = dict[nn.Module, tuple[Tensor, Tensor]]
"""Keys and values (B, H, positions, K) of each attention module of a decoder. A new cache is `{}`."""


def attention_scores(query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
    """Score each query with each key, before mask and softmax: Q K^T / sqrt(K) (section 3.2.1, equation 1).

    Parameters
    ----------
    query : (..., T, K)
        The queries.
    key : (..., S, K)
        The keys.

    Returns
    -------
    Tensor
        The scores (..., T, S).

    Raises
    ------
    DataError
        If queries and keys have different widths.
    """
    if query.size(-1) != key.size(-1):
        raise DataError(f"`query` and `key` must have one width, but have {query.size(-1)} and {key.size(-1)}.")
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


def attention_weights(
    query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H S K"], mask: Bool[Tensor, "..."] | None
) -> Float[Tensor, "B H T S"]:
    """Attention weights softmax(Q K^T / sqrt(K)) over the keys that `mask` allows (section 3.2.1, equation 1).

    Parameters
    ----------
    query : (..., T, K)
        The queries.
    key : (..., S, K)
        The keys.
    mask : Tensor or None
        Boolean, broadcastable to the scores, True where a query may attend to a key. None: every query attends to every
        key.

    Returns
    -------
    Tensor
        The weights (..., T, S). Each row sums to 1. Masked keys get a weight of exactly 0. If a query may attend to no
        key, its whole row is 0.

    Raises
    ------
    DataError
        If queries and keys have different widths, or if the mask is not Boolean, does not broadcast, or could be per
        sentence as well as per head.
    """
    scores = attention_scores(query, key)
    if mask is None:
        return torch.softmax(scores, dim=-1)
    check_mask(mask, scores.shape)
    # The lowest finite number instead of -inf: a row with every key masked would give NaN, also in the gradient.
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(~mask, 0.0)


class MultiHeadAttention(nn.Module):
    """Multi-head attention: Concat(head_1, ..., head_H) W^O (section 3.2.2).

    Head i is Attention(Q W_i^Q, K W_i^K, V W_i^V) with projections of width K = d_model / num_heads.

    `in_weight` (3 D, D) stacks the projections of query, key and value of all heads. `out` is W^O. Each of the four
    matrices has its own Xavier uniform initialization, and biases start at 0.

    Deviations from the paper: the projections have biases unless `bias` is False, and dropout can be applied to the
    attention weights.

    Parameters
    ----------
    d_model
        Width D of inputs and output.
    num_heads
        Number of heads H, a divisor of `d_model`.
    dropout
        Dropout rate of the attention weights.
    bias
        Whether the four projections have biases.

    Raises
    ------
    ConfigError
        If a size is not a whole number above 0, or if `num_heads` does not divide `d_model`.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True) -> None:
        check_heads(d_model, num_heads)
        super().__init__()
        self.num_heads = num_heads
        self.in_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_bias = nn.Parameter(torch.zeros(3 * d_model)) if bias else None
        self.out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        for block in self.in_weight.data.chunk(3):
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.out.weight)
        if bias:
            nn.init.zeros_(self.out.bias)

    def extra_repr(self) -> str:
        """Sizes that `print(model)` shows."""
        return f"d_model={self.in_weight.size(1)}, num_heads={self.num_heads}, bias={self.in_bias is not None}"

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: Mask | None = None,
        weights: list[Tensor] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Attend from each query to the keys and project the weighted sums of the values.

        Parameters
        ----------
        query
            Input of the query projection (B, T, D).
        key, value
            Inputs of the key and value projections (B, S, D).
        mask
            Boolean, broadcastable to (B, H, T, S), True where a query may attend to a key. This is the opposite of
            `torch.nn.MultiheadAttention`. Without a mask every query attends to every key. Give one mask for each
            sentence as `mask[:, None]`, and one for each head as `mask[None]`.
        weights
            If a list is given, the attention weights (B, H, T, S) before dropout are appended to it.
        cache
            If a dict is given, queries also attend to the keys of earlier calls with it. S counts them, too. Keys and
            values of a memory (`key` is not `query`) are projected in the first call only.

        Returns
        -------
        Tensor
            The output (B, T, D). If a query may attend to no key, its input to the output projection is zero.

        Raises
        ------
        DataError
            If `mask` is not Boolean, does not broadcast, or has 3 dimensions that may be (B, T, S) or (H, T, S), or if
            the shapes of the inputs do not fit.
        """
        check_attention_inputs(query, key, value, self.in_weight.size(1))
        if cache is None:
            queries, keys, values = self.project(query, key, value)
        else:
            queries, keys, values = self._project_new(query, key, value, cache)
        if mask is not None:
            check_mask(mask, (*queries.shape[:3], keys.size(2)))
            mask = torch.atleast_2d(mask)  # type: ignore[no-untyped-call]  # torch's attention takes no others
        heads = self._attend_heads(queries, keys, values, mask, weights)
        return self.out(heads.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _attend_heads(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Mask | None, weights: list[Tensor] | None
    ) -> Float[Tensor, "B H T K"]:
        """The weighted sums of the values of each head."""
        if weights is None:
            rate = self.dropout.p if self.training else 0.0
            return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=rate)
        weights.append(attention_weights(queries, keys, mask))
        return self.dropout(weights[-1]) @ values  # type: ignore[no-any-return]

    def project(self, *inputs: Float[Tensor, "B _ D"]) -> tuple[Tensor, ...]:
        """Project to queries, keys and values, and split these into heads.

        Parameters
        ----------
        *inputs : (B, T, D) or (B, S, D)
            The inputs of the projections of queries, keys and values, in this order. The last ones can be left out.

        Returns
        -------
        tuple of Tensor
            One tensor for each input: queries (B, H, T, K), keys and values (B, H, S, K).
        """
        in_weights = self.in_weight.chunk(3)
        in_biases = (None, None, None) if self.in_bias is None else self.in_bias.chunk(3)
        projected = map(functional.linear, inputs, in_weights, in_biases)
        return tuple(self._split_heads(hidden) for hidden in projected)

    def _project_new(self, query: Tensor, key: Tensor, value: Tensor, cache: Cache) -> tuple[Tensor, ...]:
        """Project what the cache does not have yet, store it there, and return queries, all keys and all values."""
        if key is not query and self in cache:  # cross-attention: the memory is the same in every step
            return *self.project(query), *cache[self]
        queries, *new = self.project(query, key, value)
        keys, values = (
            (torch.cat(parts, dim=2) for parts in zip(cache[self], new, strict=True)) if self in cache else new
        )
        cache[self] = keys, values
        return queries, keys, values

    def _split_heads(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        rows, length, width = hidden.shape
        return hidden.view(rows, length, self.num_heads, width // self.num_heads).transpose(1, 2)


def padding_mask(lengths: Int64[Tensor, " B"], size: int) -> Bool[Tensor, "B 1 1 {size}"]:
    """Mask that keeps attention away from padding.

    Parameters
    ----------
    lengths : (B,)
        Number of tokens of each sentence, without padding.
    size : int
        Number of positions S of the padded sentences.

    Returns
    -------
    Tensor
        A Boolean mask (B, 1, 1, S), which broadcasts over heads and queries: True at the first `lengths[b]` keys of
        sentence b.

    Raises
    ------
    DataError
        If `lengths` is not a vector of int64.
    ConfigError
        If `size` is negative or not a whole number.

    Examples
    --------
    >>> padding_mask(torch.tensor([1, 3]), 3)[:, 0, 0]
    tensor([[ True, False, False],
            [ True,  True,  True]])
    """
    check_lengths("lengths", lengths)
    check_sizes(0, size=size)
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]


def causal_mask(size: int, device: torch.device | str | None = None) -> Bool[Tensor, "{size} {size}"]:
    """Mask of the decoder's self-attention, which keeps a position from attending to later ones (section 3.2.3).

    Parameters
    ----------
    size : int
        Number of positions T.
    device : torch.device or str, optional
        Where to create the mask. By default, torch's default device.

    Returns
    -------
    Tensor
        A Boolean mask (T, T): True where the key's position (column) is not after the query's position (row).

    Raises
    ------
    ConfigError
        If `size` is negative or not a whole number.

    Examples
    --------
    >>> causal_mask(3)
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True,  True,  True]])
    """
    check_sizes(0, size=size)
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()
