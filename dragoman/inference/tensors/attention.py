"""Attention in plain tensor operations, and cross-attention that is prepared once for all steps of a batch.

Projections of queries already contain the scale of the scores. Two implementations of cross-attention give the same
result:

- *Plain* keeps keys and values, (B, H, S, K) each. A step multiplies by the query projection, the keys, the values and
  the output projection.
- *Folded* multiplies the two projections into keys and values beforehand: x W_q K^T = x (K W_q^T)^T and
  p V W_o = p (V W_o). A step then has two products instead of four and a third of the operations, for H times the
  memory. One sentence takes 6 to 20% less time (samples and ensembles, docs/log.md). Large batches are not folded.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.inference.tensors.products import ProductFunction, product_function, scale_input
from dragoman.model.attention import MultiHeadAttention


def attend(
    query: Float[Tensor, "B H W K"], key: Float[Tensor, "B H S K"], value: Float[Tensor, "B H S K"], mask: Tensor
) -> Float[Tensor, "B H W K"]:
    """softmax(Q K^T + mask) V, without scaling. `mask` is 0 or -inf and broadcasts to (B, H, W, S)."""
    num_sentences, num_heads, width, head_width = query.shape
    flat = num_sentences * num_heads
    scores = torch.bmm(query.reshape(flat, width, head_width), key.view(flat, -1, head_width).transpose(1, 2))
    scores.view(num_sentences, num_heads, width, -1).add_(mask)
    weights = torch.softmax(scores, dim=-1)
    return torch.bmm(weights, value.view(flat, -1, head_width)).view(query.shape)


def merge_heads(heads: Float[Tensor, "BH W K"], num_sentences: int, num_heads: int) -> Float[Tensor, "N D"]:
    """Concatenate the heads of each row. N is B * W."""
    _, width, head_width = heads.shape
    by_row = heads.view(num_sentences, num_heads, width, head_width).transpose(1, 2)
    return by_row.reshape(num_sentences * width, num_heads * head_width)


# Folded keys and values with more numbers than this do not fit into the processor's cache.
_MAX_FOLDED = 2**20


class Cross(Protocol):
    """Cross-attention of every layer to the sources of B sentences, ready for steps."""

    def __call__(self, layer: int, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """Output of one layer's cross-attention for the states of all hypotheses."""

    def select(self, sentences: Int64[Tensor, " B2"]) -> "Cross":
        """Keep the sources of some sentences."""

    def in_float32(self) -> "Cross":
        """Convert keys and values to float32, which is faster for few sentences."""


class CrossAttention:
    """The weights of the cross-attention of all decoder layers."""

    def __init__(self, layers: Sequence[MultiHeadAttention], precision: str) -> None:
        self._num_layers, self._num_heads = len(layers), layers[0].num_heads
        width = layers[0].in_weight.size(1)
        biases = [layer.in_bias[width:] for layer in layers if layer.in_bias is not None]
        weight = torch.cat([layer.in_weight[width:] for layer in layers])
        self._keys_and_values = product_function(weight, torch.cat(biases) if biases else None, precision)
        self._queries = [scale_input(layer, 0, 1, precision) for layer in layers]
        self._outputs = [product_function(layer.out.weight, layer.out.bias, precision) for layer in layers]
        self._folding = torch.stack([_folding(layer) for layer in layers])
        self._query_bias, self._output_bias = _biases(layers)

    def keys_and_values(self, memory: Float[Tensor, "B S D"], dtype: torch.dtype) -> Float[Tensor, "L 2 B H S K"]:
        """Keys and values of every layer, from the encoder's output."""
        parts = self._keys_and_values(memory.flatten(0, 1)).to(dtype)
        parts = parts.view(*memory.shape[:2], self._num_layers, 2, self._num_heads, -1)
        return parts.permute(2, 3, 0, 4, 1, 5).contiguous()

    def prepare(self, keys_and_values: Float[Tensor, "L 2 B H S K"], mask: Float[Tensor, "B 1 1 S"]) -> Cross:
        """Choose the faster implementation for this amount of keys and values.

        `mask` is 0 at real source positions and -inf at padding.
        """
        folds = keys_and_values.dtype == torch.float32 and keys_and_values.device.type == "cpu"
        if not folds or keys_and_values.numel() * self._num_heads > _MAX_FOLDED:
            return _Plain(keys_and_values, mask, self._queries, self._outputs)
        num_layers, _, num_sentences, num_heads, length, head_width = keys_and_values.shape
        by_head = keys_and_values.transpose(2, 3).reshape(2 * num_layers * num_heads, -1, head_width)
        folded = torch.bmm(by_head, self._folding.view(-1, *self._folding.shape[3:]))
        folded = folded.view(num_layers, 2, num_heads, num_sentences, length, -1).transpose(2, 3).contiguous()
        biases = torch.einsum("lhk,lbhsk->lbhs", self._query_bias, keys_and_values[:, 0]) + mask[:, 0]
        if self._output_bias is not None:
            # The attention weights of each head sum to 1, so H shares of the bias add it once.
            folded[:, 1] += (self._output_bias / num_heads)[:, None, None, None]
        return _Folded(folded.flatten(3, 4), biases.flatten(2)[:, :, None], num_heads)


class _Plain:
    """Keys and values between the query projection and the output projection."""

    def __init__(
        self,
        keys_and_values: Float[Tensor, "L 2 B H S K"],
        mask: Float[Tensor, "B 1 1 S"],
        queries: Sequence[ProductFunction],
        outputs: Sequence[ProductFunction],
    ) -> None:
        self._keys_and_values, self._mask = keys_and_values, mask
        self._queries, self._outputs = queries, outputs
        self._keys, self._values = keys_and_values[:, 0].unbind(0), keys_and_values[:, 1].unbind(0)

    def __call__(self, layer: int, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        keys, values = self._keys[layer], self._values[layer]
        num_sentences, num_heads, _, head_width = keys.shape
        query = self._queries[layer](rows).to(self._mask.dtype).view(num_sentences, -1, num_heads, head_width)
        heads = attend(query.transpose(1, 2), keys, values, self._mask)
        return self._outputs[layer](merge_heads(heads.flatten(0, 1), num_sentences, num_heads))

    def select(self, sentences: Int64[Tensor, " B2"]) -> "_Plain":
        chosen, mask = self._keys_and_values.index_select(2, sentences), self._mask.index_select(0, sentences)
        return _Plain(chosen, mask, self._queries, self._outputs)

    def in_float32(self) -> "_Plain":
        return _Plain(self._keys_and_values.float(), self._mask.float(), self._queries, self._outputs)


class _Folded:
    """Keys and values that contain the two projections."""

    def __init__(self, folded: Float[Tensor, "L 2 B HS D"], biases: Float[Tensor, "L B 1 HS"], num_heads: int) -> None:
        self._folded, self._all_biases, self._num_heads = folded, biases, num_heads
        self._keys, self._values = folded[:, 0].transpose(2, 3).unbind(0), folded[:, 1].unbind(0)
        self._biases = biases.unbind(0)

    def __call__(self, layer: int, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        values = self._values[layer]
        num_sentences, size, width = values.shape
        queries = rows.view(num_sentences, -1, width)
        scores = torch.baddbmm(self._biases[layer], queries, self._keys[layer])
        weights = torch.softmax(scores.view(num_sentences, -1, self._num_heads, size // self._num_heads), dim=-1)
        return torch.bmm(weights.view(scores.shape), values).view(rows.shape)

    def select(self, sentences: Int64[Tensor, " B2"]) -> "_Folded":
        chosen, biases = self._folded.index_select(2, sentences), self._all_biases.index_select(1, sentences)
        return _Folded(chosen, biases, self._num_heads)

    def in_float32(self) -> "_Folded":
        return self


def _folding(layer: MultiHeadAttention) -> Float[Tensor, "2 H K D"]:
    """The factors of keys and values: each head's query projection, with the scale of scores, and output projection."""
    width = layer.in_weight.size(1)
    query = layer.in_weight[:width].view(layer.num_heads, -1, width) * (width // layer.num_heads) ** -0.5
    output = layer.out.weight.t().view(layer.num_heads, -1, width)
    return torch.stack((query, output))


def _biases(
    layers: Sequence[MultiHeadAttention],
) -> tuple[Float[Tensor, "L H K"], Float[Tensor, "L D"] | None]:
    """Biases of the query projections, with the scale of scores, and of the output projections, None without any."""
    num_heads, width = layers[0].num_heads, layers[0].in_weight.size(1)
    zeros = layers[0].in_weight.new_zeros(width)
    queries = torch.stack([zeros if layer.in_bias is None else layer.in_bias[:width] for layer in layers])
    outputs: list[Tensor] = [layer.out.bias for layer in layers if layer.in_bias is not None]
    scaled = queries.view(len(layers), num_heads, -1) * (width // num_heads) ** -0.5
    return scaled, torch.stack(outputs) if outputs else None
