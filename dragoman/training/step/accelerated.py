"""Accelerated modules: `dragoman.model` as training computes it, with the same functions and parameters in less time.

`accelerate` swaps them into a replica. They differ from the definition in four ways:

- The layers may be bfloat16 beside float32 embeddings, which makes a gradient 1.5 (tiny) to 2.6 times (base) as fast as
  that of the definition in float32 (docs/explanation/internals.md).
- On a CPU with numba, everything between two matrix products takes one pass over memory forward and one backward
  (`fused`).
- On a CPU, the random numbers of dropout come from `Randomness`, which each thread seeds from seed and step.
- The projections of attention that read the same input are one product, on every device.
"""

import contextlib
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from dragoman.model.attention import Cache, Mask, MultiHeadAttention, attention_weights
from dragoman.model.embedding import Embedding
from dragoman.model.layers import FeedForward, Residual
from dragoman.training.step import fused
from dragoman.training.step.fused import NO_DROPOUT, DropoutBits, random_words

_NUM_VALUES = 1 << 16
_ONE = 0x3F80  # the bits of 1 in bfloat16, as an integer


class Randomness:
    """The source of random numbers for dropout on a CPU.

    Every training thread has one, so that its numbers do not depend on the other threads.
    """

    def __init__(self) -> None:
        self.seed(0)
        self._rows: tuple[int, int, int] | None = None

    def seed(self, *numbers: int) -> None:
        """Make all following random numbers depend on `numbers` (not negative) alone."""
        self._generator = np.random.SFC64(np.random.SeedSequence(numbers))

    @contextlib.contextmanager
    def rows(self, start: int, stop: int, total: int) -> Iterator[None]:
        """Inside the block, rows `start` to `stop` get the numbers that they would get in a batch of `total` rows.

        Afterwards the generator returns to its state before the block, unless these were the last rows.
        """
        before = self._generator.state
        self._rows = (start, stop, total)
        try:
            yield
        finally:
            self._rows = None
            if stop < total:
                self._generator.state = before

    def sample_bits(self, *shape: int) -> Tensor:
        """Uniform int16 numbers. The first dimension of `shape` is the rows of a batch, or of several copies of it."""
        if self._rows is None:
            return self._sample_numbers(math.prod(shape)).view(shape)
        start, stop, total = self._rows
        whole = torch.Size((shape[0] // (stop - start), total, *shape[1:]))
        return self._sample_numbers(whole.numel()).view(whole)[:, start:stop].reshape(shape)

    def sample_mask(self, count: int, share: float) -> Bool[Tensor, " {count}"]:
        """A mask that is true with probability `share`, rounded to a multiple of 1/65536."""
        return self._sample_numbers(count) >= _first_of(share)

    def _sample_numbers(self, count: int) -> Tensor:
        return random_words(self._generator, (count + 3) // 4).view(torch.int16)[:count]


class Dropout(nn.Dropout):
    """torch's dropout, with random numbers from `randomness` on a CPU.

    torch's own samples one uniform number per element and takes a fifth of a training step of a small model. Here two
    integer operations turn 16 random bits per element into a mask: the bits of bfloat16's 1 where the element is kept,
    else zero. The rate is rounded to a multiple of 1/65536. Kept elements are scaled by the rounded rate, so the
    expectation stays exact.
    """

    randomness: Randomness

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop elements at random and scale the others. Shape and type stay."""
        if not self.training or self.p == 0:
            return input
        if input.device.type != "cpu":
            return super().forward(input)
        mask: Tensor = self._mask(input.shape)
        return (input * mask).mul_(1 / kept_share(self.p))

    def bits(self, *shape: int) -> DropoutBits:
        """The random numbers that `forward` would use on a CPU for a tensor of this shape."""
        if not self.training or self.p == 0:
            return NO_DROPOUT
        return DropoutBits(self.randomness.sample_bits(*shape), self._first_kept, 1 / kept_share(self.p))

    @property
    def _first_kept(self) -> int:
        return _first_of(kept_share(self.p))

    def _mask(self, shape: torch.Size) -> Float[Tensor, "*shape"]:
        """A bfloat16 mask: 1 where an element is kept, else 0."""
        kept = self.randomness.sample_bits(*shape).ge_(self._first_kept).mul_(_ONE)
        return kept.view(torch.bfloat16)

    # torch.compile has nothing to fuse here and cannot view bits as another type. This is what torch.compiler.disable
    # sets, which takes half a second to import.
    _mask._torchdynamo_disable = True  # type: ignore[attr-defined]


def _first_of(share: float) -> int:
    """The smallest of the int16 numbers that are the largest `share` of all."""
    return _NUM_VALUES // 2 - round(share * _NUM_VALUES)


def kept_share(rate: float) -> float:
    """The share of elements that `Dropout(rate)` keeps on a CPU: the multiple of 1/65536 nearest to 1 - rate, not 1."""
    return min(_NUM_VALUES - 1, round((1 - rate) * _NUM_VALUES)) / _NUM_VALUES


_RANKS = 1 << 16


def cpu_seeds(seed: int, step: int, rank: int) -> tuple[int, ...]:
    """The numbers from which a process seeds the generators of its threads. Each thread appends its own number.

    They are distinct for distinct (step, rank, thread). NumPy ignores zeros at the end of a seed, so rank 1 must not
    look like thread 1 of the first process.
    """
    return (seed, step, _RANKS + rank) if rank else (seed, step)


def torch_seed(seed: int, step: int, rank: int) -> int:
    """The seed of torch's own generator, which dropout uses on GPUs. Distinct in the same way.

    For the first process this holds for seeds below 2**31 and steps below 2**32.
    """
    if rank:
        return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0])
    return (seed << 32) | step


def accelerate(module: nn.Module, randomness: Randomness, dtype: torch.dtype | None = None) -> None:
    """Swap the module and all modules in it for accelerated ones, in place.

    Only their classes change, as in torch's own `fully_shard`: parameters, names and hooks stay. `randomness` is the
    source of every dropout on a CPU. Embeddings give vectors of `dtype`, or of the type of their weights.
    """
    for each in module.modules():
        each.__class__ = _ACCELERATED.get(type(each), type(each))
        if isinstance(each, Dropout):
            each.randomness = randomness
        elif isinstance(each, AcceleratedEmbedding):
            each.dtype = dtype or each.weight.dtype


class _Linear(nn.Linear):
    def forward(self, input: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        return fused.linear(input, self.weight, self.bias)


class _LayerNorm(nn.LayerNorm):
    def forward(self, input: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        if fused.active(input):
            return fused.layer_norm(input, self.weight, self.bias, self.eps)
        return super().forward(input)


class AcceleratedEmbedding(Embedding):
    """`Embedding` with vectors in `dtype`.

    If `sums` (V, D; float32) is set, the gradient of the weights may be added to it instead of to `weight.grad`. The
    gradient of one batch is as large as the vocabulary and nearly all zeros.
    """

    dtype: torch.dtype
    sums: Tensor | None = None

    def forward(self, ids: Int64[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T D"]:
        """As `Embedding`. Raises IndexError for an id without an embedding."""
        positions = self.table(start, ids.size(1))
        if positions.requires_grad or self.weight.dtype != torch.float32 or not fused.active(self.weight):
            return super().forward(ids, start).to(self.dtype)
        dropout = _dropout_bits(self.dropout, *ids.shape, self.weight.size(1))
        return fused.embed(self.weight, ids, positions, dropout, self.dtype, self.sums)


class _Attention(MultiHeadAttention):
    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: Mask | None = None,
        weights: list[Tensor] | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        if weights is not None or cache is not None or key is not value:
            return super().forward(query, key, value, mask, weights, cache)
        width, bias = query.size(-1), self.in_bias
        if query is key:
            queries, packed = fused.linear(query, self.in_weight, bias), None
        else:
            query_bias, packed_bias = (None, None) if bias is None else (bias[:width], bias[width:])
            queries = fused.linear(query, self.in_weight[:width], query_bias)
            packed = fused.linear(key, self.in_weight[width:], packed_bias)
        if fused.attention_active(key, mask, width // self.num_heads):
            dropout = _dropout_bits(self.dropout, query.size(0), self.num_heads, query.size(1), key.size(1))
            return self.out(fused.attention(queries, packed, mask, self.num_heads, dropout))  # type: ignore[no-any-return]
        heads = [head for part in (queries, packed) if part is not None for head in self._split_packed(part, width)]
        return self.out(self._attend(mask, *heads))  # type: ignore[no-any-return]

    def _split_packed(self, packed: Float[Tensor, "B T PD"], width: int) -> tuple[Tensor, ...]:
        """P projections side by side as P contiguous tensors (B, H, T, K): one copy for all of them.

        On a CPU they are float32: small batched products are no slower than in bfloat16, for which oneDNN would
        compile a kernel for every shape.
        """
        rows, length, size = packed.shape
        heads = packed.view(rows, length, size // width, self.num_heads, width // self.num_heads)
        dtype = torch.float32 if packed.device.type == "cpu" else packed.dtype
        return heads.permute(2, 0, 3, 1, 4).to(dtype, memory_format=torch.contiguous_format).contiguous().unbind(0)

    def _attend(
        self,
        mask: Mask | None,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S K"],
    ) -> Float[Tensor, "B T D"]:
        rate = self.dropout.p if self.training else 0.0
        if rate > 0 and query.device.type == "cpu":  # torch's operation would use torch's random numbers
            heads = self.dropout(attention_weights(query, key, mask)) @ value
        else:
            heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)
        return heads.transpose(1, 2).flatten(2).to(self.out.weight.dtype)  # type: ignore[no-any-return]


class _FeedForward(FeedForward):
    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        inner = self.inner(hidden)
        if self.activation is functional.relu and fused.active(inner):
            inner = fused.relu_dropout(inner, _dropout_bits(self.dropout, *inner.shape))
        else:
            inner = self.dropout(self.activation(inner))
        return self.outer(inner)  # type: ignore[no-any-return]


class _Residual(Residual):
    def forward(self, hidden: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        if not fused.active(hidden):
            return super().forward(hidden, sublayer)
        output = sublayer(self.norm(hidden) if self.norm_first else hidden)
        total = fused.add_dropout(hidden, output, _dropout_bits(self.dropout, *output.shape))
        return total if self.norm_first else self.norm(total)


def _dropout_bits(dropout: nn.Dropout, *shape: int) -> fused.DropoutBits:
    assert isinstance(dropout, Dropout)
    return dropout.bits(*shape)


_ACCELERATED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: Dropout,
    nn.LayerNorm: _LayerNorm,
    nn.Linear: _Linear,
    Embedding: AcceleratedEmbedding,
    MultiHeadAttention: _Attention,
    FeedForward: _FeedForward,
    Residual: _Residual,
}
