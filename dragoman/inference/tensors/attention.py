"""Attention in plain tensor operations, for queries whose projection already contains the scale of the scores."""

import torch
from jaxtyping import Float
from torch import Tensor


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
