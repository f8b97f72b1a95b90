"""Encodes attention weights as bytes, and summarizes a head in three numbers."""

import base64
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from dragoman.model.transformer import AttentionWeights
from dragoman.visualization.inspection.inspection import (
    ATTENTION_KINDS,
    END,
    START,
    AttentionKind,
    HeadFacts,
    PackedAttention,
)

MOST_TOKENS_WITH_HEADS = 200
"""With more tokens on a side, a page only shows the mean of the heads."""


def collect_weights(
    attention: AttentionWeights, src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> tuple[PackedAttention, ...]:
    """Pack the attention of one sentence pair by kind. `attention` belongs to bos and the target, without padding."""
    src, tgt = (*src_tokens, END), (START, *tgt_tokens)
    mean_only = not shows_heads(len(src_tokens), len(tgt_tokens))
    labels = {"cross": (tgt, src), "encoder_self": (src, src), "decoder_self": (tgt, tgt)}
    return tuple(_pack_kind(kind, getattr(attention, kind), *labels[kind], mean_only) for kind in ATTENTION_KINDS)


def shows_heads(num_src: int, num_tgt: int) -> bool:
    """Whether the page shows single heads for these numbers of tokens, without control tokens."""
    return max(num_src, num_tgt) <= MOST_TOKENS_WITH_HEADS


def encode_weights(weights: Float[Tensor, "..."]) -> str:
    """Encode weights from 0 to 1 as one rounded byte each, in base64."""
    return base64.b64encode((weights.float().cpu() * 255).round().to(torch.uint8).numpy().tobytes()).decode("ascii")


def decode_weights(weights: PackedAttention) -> NDArray[np.float32]:
    """Decode the weights: (layers, heads, queries, keys), each with an error of at most 1 / 510."""
    flat = np.frombuffer(base64.b64decode(weights.data), np.uint8).astype(np.float32) / np.float32(255)
    return flat.reshape(weights.num_layers, weights.num_heads, len(weights.queries), len(weights.keys))


def _pack_kind(
    kind: AttentionKind, layers: Sequence[Tensor], queries: tuple[str, ...], keys: tuple[str, ...], mean_only: bool
) -> PackedAttention:
    stacked = torch.stack([layer[0] for layer in layers]).float().cpu()
    if mean_only:
        stacked = stacked.mean(1, keepdim=True)
    num_layers, num_heads = stacked.shape[:2]
    facts = tuple(tuple(_head_facts(head, kind) for head in layer) for layer in stacked)
    return PackedAttention(kind, num_layers, num_heads, queries, keys, mean_only, encode_weights(stacked), facts)


def _head_facts(weights: Float[Tensor, "Q S"], kind: AttentionKind) -> HeadFacts:
    num_queries, num_keys = weights.shape
    entropy = -(weights * weights.clamp(min=1e-12).log2()).sum(1).mean()
    places = torch.arange(num_queries)[:, None] * (num_keys / num_queries if kind == "cross" else 1.0)
    distance = (weights * (torch.arange(num_keys)[None] - places).abs()).sum(1).mean()
    sink = weights[:, 0 if kind == "decoder_self" else -1].mean()
    return HeadFacts(*(round(float(value), 4) for value in (entropy.clamp(min=0), distance, sink)))
