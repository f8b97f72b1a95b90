"""Makes a wider and deeper post-norm Transformer that computes what a trained small one computes.

A large model would train for a day on two cores until its translations are good enough for a comparison. Widths grow as
in Net2Net (Chen, Goodfellow and Shlens 2016): every number of the small model is copied several times, and each weight
that reads it is divided among the copies. The shares are random, so that the copies become different in training. Added
layers start with sublayers of nearly zero. Some hundred steps repair the inexact parts (positions, added norms).
"""

import math

import torch
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from dragoman.model.transformer import Transformer

BRANCH_OF_ADDED = 0.05


@torch.no_grad()
def grow(small: Transformer, large: Transformer) -> None:
    """Write the weights of `small` into `large`, whose widths and numbers of heads are multiples of those of `small`.

    Both are post-norm with tied embeddings and Marian's positions.
    """
    growth = _Growth(small, large)
    # The embedding is multiplied by sqrt(d_model).
    ratio = large.src_embedding.weight.size(1) / small.src_embedding.weight.size(1)
    large.src_embedding.weight.copy_(small.src_embedding.weight[:, growth.hidden] / math.sqrt(ratio))
    large.projection.bias.copy_(small.projection.bias)
    for stack, grown in ((small.encoder, large.encoder), (small.decoder, large.decoder)):
        for layer, target in zip(stack.layers, grown.layers, strict=False):
            growth.layer(layer, target)
        last = stack.layers[-1].feed_forward_residual.norm
        for target in list(grown.layers)[len(stack.layers) :]:
            growth.added(last, target)
    # The tied projection sums over the copies: sqrt(ratio) times too much.
    norm = large.decoder.layers[-1].feed_forward_residual.norm
    norm.weight.div_(math.sqrt(ratio))
    norm.bias.div_(math.sqrt(ratio))


class _Growth:
    """The index in the small model that each number of the large model copies."""

    def __init__(self, small: Transformer, large: Transformer) -> None:
        one, other = small.encoder.layers[0], large.encoder.layers[0]
        self.hidden = _copies(one.feed_forward.inner.weight.size(1), other.feed_forward.inner.weight.size(1))
        self.inner = _copies(one.feed_forward.inner.weight.size(0), other.feed_forward.inner.weight.size(0))
        heads, more_heads = one.self_attn.num_heads, other.self_attn.num_heads
        width, more_width = len(self.hidden.unique()) // heads, len(self.hidden) // more_heads
        places = _copies(heads, more_heads)[:, None] * width + _copies(width, more_width)
        self.heads = places.flatten()
        # softmax(q k / sqrt(K)): the product grows with the copies in a head, the root by less.
        self.query_scale = math.sqrt(width / more_width)

    def layer(self, small: EncoderLayer | DecoderLayer, large: EncoderLayer | DecoderLayer) -> None:
        for name, module in small.named_children():
            target = large.get_submodule(name)
            if isinstance(module, MultiHeadAttention):
                self._attention(module, target)
            elif isinstance(module, FeedForward):
                self._linear(module.inner, target.inner, self.inner, self.hidden)
                self._linear(module.outer, target.outer, self.hidden, self.inner)
            elif isinstance(module, Residual):
                target.norm.weight.copy_(module.norm.weight[self.hidden])
                target.norm.bias.copy_(module.norm.bias[self.hidden])

    def added(self, last: nn.LayerNorm, large: EncoderLayer | DecoderLayer) -> None:
        """Make a layer nearly return its input: its norms restore the usual mean and deviation."""
        mean = last.bias.mean()
        deviation = (last.weight.square().mean() + last.bias.var(correction=0)).sqrt()
        for module in large.modules():
            if isinstance(module, MultiHeadAttention):
                module.out.weight.mul_(BRANCH_OF_ADDED)
            elif isinstance(module, FeedForward):
                module.outer.weight.mul_(BRANCH_OF_ADDED)
            elif isinstance(module, nn.LayerNorm):
                module.weight.fill_(deviation)
                module.bias.fill_(mean)

    def _attention(self, small: MultiHeadAttention, large: MultiHeadAttention) -> None:
        width, more_width = small.out.weight.size(0), large.out.weight.size(0)
        for part, scale in enumerate((self.query_scale, 1.0, 1.0)):
            rows, more_rows = slice(part * width, (part + 1) * width), slice(part * more_width, (part + 1) * more_width)
            drawn = large.in_weight[more_rows]
            large.in_weight[more_rows] = _wider(small.in_weight[rows] * scale, drawn, self.heads, self.hidden)
            large.in_bias[more_rows] = small.in_bias[rows][self.heads] * scale
        self._linear(small.out, large.out, self.hidden, self.heads)

    def _linear(self, small: nn.Linear, large: nn.Linear, rows: Tensor, columns: Tensor) -> None:
        large.weight.copy_(_wider(small.weight, large.weight, rows, columns))
        large.bias.copy_(small.bias[rows])


def _copies(count: int, more: int) -> Tensor:
    """Return for each of `more` indices the one of `count` that it copies; copies are adjacent."""
    if more % count:
        raise ValueError(f"{more} is no multiple of {count}")
    return torch.arange(more) // (more // count)


def _wider(weight: Tensor, drawn: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Divide each number of `weight` among the copies of its column, into unequal shares from `drawn`."""
    share = len(columns) // weight.size(1)
    sums = torch.zeros(drawn.size(0), weight.size(1)).index_add_(1, columns, drawn)
    return weight[rows][:, columns] / share + drawn - sums[:, columns] / share
