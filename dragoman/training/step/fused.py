"""Fused operations for a CPU: everything that a layer computes between two matrix products, in one pass over memory.

torch has one operation for every step, and each reads and writes all numbers again. For a small model that takes longer
than the products. The functions of `dragoman.kernels.training` do several steps at once, in float32 whatever the type
of storage. With the same dropout, the results differ from torch's only by rounding. docs/explanation/internals.md has
the gain.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from dragoman.kernels import TILE_ROWS, VECTOR_WIDTH
from dragoman.kernels.compiling import can_compile

# With more keys, attention is faster as library products.
_MAX_KEYS = 128
_ROWS_STEP = 64
_DTYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class DropoutBits:
    """Random numbers for dropout. An element is kept and multiplied by `scale` if its 16 `bits` are >= `first_kept`.

    Without bits, every element is kept.
    """

    bits: Tensor
    first_kept: int = 0
    scale: float = 1.0

    @property
    def drops(self) -> bool:
        """True if elements are dropped."""
        return self.bits.numel() > 0

    @property
    def arguments(self) -> tuple[int, int, float]:
        """Arguments of the compiled functions: the address of the bits, `first_kept` and `scale`."""
        return _address(self.bits) if self.drops else 0, self.first_kept, self.scale


NO_DROPOUT = DropoutBits(torch.empty(0, dtype=torch.int16))


def can_compute(hidden: Tensor) -> bool:
    """True if `hidden` is on a CPU with compiled functions, in a type that they support."""
    on_cpu = hidden.device.type == "cpu" and hidden.dtype in _DTYPES
    return on_cpu and not torch.compiler.is_compiling() and can_compile()


def active(hidden: Tensor) -> bool:
    """True if gradients are enabled and the functions below can compute `hidden`."""
    return torch.is_grad_enabled() and can_compute(hidden)


def attention_active(hidden: Float[Tensor, "B S D"], mask: Bool[Tensor, "..."] | None, head_width: int) -> bool:
    """True if `attention` can compute this: `active`, few keys, head widths of whole vectors, a supported mask."""
    suits = hidden.size(1) <= _MAX_KEYS and head_width % VECTOR_WIDTH == 0
    return suits and active(hidden) and _allows_first_keys(mask)


def _allows_first_keys(mask: Bool[Tensor, "..."] | None) -> bool:
    """True if each query may attend to the first keys, at least one, and to no others (`dragoman.model.masks`)."""
    return mask is None or (bool(mask[..., 0].all()) and bool((mask[..., 1:] <= mask[..., :-1]).all()))


def add_dropout(hidden: Float[Tensor, "*shape"], output: Float[Tensor, "*shape"], dropout: DropoutBits) -> Tensor:
    """hidden + dropout(output)."""
    if not dropout.drops:
        return hidden + output
    total: Tensor = _AddDropout.apply(hidden, output, dropout)  # type: ignore[no-untyped-call]
    return total


def layer_norm(rows: Float[Tensor, "*rows D"], gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Layer norm over the last dimension (Ba et al. 2016)."""
    normed: Tensor = _LayerNorm.apply(rows, gain, bias, epsilon)  # type: ignore[no-untyped-call]
    return normed


def relu_dropout(values: Float[Tensor, "*shape"], dropout: DropoutBits) -> Tensor:
    """dropout(max(values, 0))."""
    out: Tensor = _ReluDropout.apply(values, dropout)  # type: ignore[no-untyped-call]
    return out


def embed(
    weight: Float[Tensor, "V D"],
    ids: Int64[Tensor, "B T"],
    positions: Float[Tensor, "T D"],
    dropout: DropoutBits,
    dtype: torch.dtype,
    sums: Float[Tensor, "V D"] | None = None,
) -> Float[Tensor, "B T D"]:
    """dropout(sqrt(D) * weight[ids] + positions) in `dtype`. The positions get no gradient.

    The gradient of the weight is added to `sums` (float32) if it is given. Raises IndexError for an id without a row.
    """
    out: Tensor = _Embed.apply(weight, ids, positions, dropout, dtype, sums)  # type: ignore[no-untyped-call]
    return out


def attention(
    queries: Float[Tensor, "B T projected"],
    packed: Float[Tensor, "B S KV"] | None,
    mask: Bool[Tensor, "..."] | None,
    num_heads: int,
    dropout: DropoutBits,
) -> Float[Tensor, "B T D"]:
    """Attention to keys and values side by side in `packed`, or beside the queries if `packed` is None."""
    out: Tensor = _Attend.apply(queries, packed, mask, num_heads, dropout)  # type: ignore[no-untyped-call]
    return out


def linear(
    hidden: Float[Tensor, "*rows in"], weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None
) -> Float[Tensor, "*rows out"]:
    """x W^T + b as torch.nn.functional.linear computes it, with `missing_rows` rows of zeros added to x."""
    count = hidden.numel() // hidden.size(-1)
    missing = missing_rows(count, hidden)
    if count and active(hidden):
        return _Linear.apply(hidden, weight, bias, count + missing)  # type: ignore[no-any-return, no-untyped-call]
    if not missing:
        return functional.linear(hidden, weight, bias)
    padded = functional.pad(hidden.reshape(count, -1), (0, 0, 0, missing))
    return functional.linear(padded, weight, bias)[:count].view(*hidden.shape[:-1], -1)


def missing_rows(count: int, like: Tensor) -> int:
    """The number of rows to add to `count` rows before a product. Type and device are those of `like`.

    oneDNN compiles a kernel for every new shape of a bfloat16 product, which takes as long as one or two products of a
    small model. Batches of text have hundreds of shapes. Padding rows to a multiple of 64 leaves about a dozen shapes
    and saves a quarter of the time of a small model. float32 products (MKL) and other devices do not need it.
    """
    return -count % _ROWS_STEP if like.dtype == torch.bfloat16 and like.device.type == "cpu" else 0


def exp2_(rows: Float[Tensor, "M V"]) -> Float[Tensor, " M"]:
    """Compute 2 ** rows in place, for numbers below 128. Returns the sum of each row, float32."""
    totals = torch.empty(rows.size(0))
    _kernels().exponentiate_rows(_element_type(rows), *rows.shape, _address(rows), _address(totals))
    return totals


def random_words(generator: np.random.SFC64, count: int) -> Int64[Tensor, " {count}"]:
    """The same words as `generator.random_raw(count)`, without holding Python's lock."""
    words, state = torch.empty(count, dtype=torch.int64), generator.state
    _kernels().fill_random(state["state"]["state"], count, _address(words))
    generator.state = state
    return words


def accumulate(sums: Float[Tensor, "*shape"], values: Float[Tensor, "*shape"]) -> None:
    """sums += values, where the sums are float32."""
    _kernels().add_values(_element_type(values), values.numel(), _address(sums), _address(values))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, rows: int) -> Tensor:
        hidden = hidden.contiguous()
        padded = _pad(hidden, rows)
        ctx.save_for_backward(padded, weight)
        ctx.has_bias = bias is not None
        return _cut_rows(functional.linear(padded, weight, bias), hidden.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        padded, weight = ctx.saved_tensors
        upstream = grads[0].contiguous()
        grad, wanted = _pad(upstream, padded.size(0)), ctx.needs_input_grad
        bias_grad = weight.new_empty(weight.size(0)) if ctx.has_bias and wanted[2] else None
        if bias_grad is not None:
            sums = np.zeros(weight.size(0), np.float32)
            _kernels().add_rows(_element_type(grad), *grad.shape, _address(grad), sums, _address(bias_grad))
        hidden_grad = _cut_rows(grad @ weight, upstream.shape) if wanted[0] else None
        weight_grad = grad.t() @ padded if wanted[1] else None
        return hidden_grad, weight_grad, bias_grad, None


def _pad(hidden: Tensor, rows: int) -> Tensor:
    """The values as (rows, width), with rows of zeros at the end."""
    width = hidden.size(-1)
    count = hidden.numel() // width
    if count == rows:
        return hidden.view(rows, width)
    padded = hidden.new_empty(rows, width)
    _kernels().pad_rows(_element_type(hidden), count, width, _address(hidden), rows, _address(padded))
    return padded


def _cut_rows(rows: Tensor, shape: torch.Size) -> Tensor:
    """The first rows, in `shape` except for its last dimension."""
    sizes, steps = [*shape[:-1], rows.size(1)], [1]
    for size in reversed(sizes[1:]):
        steps.insert(0, steps[0] * size)
    return rows.as_strided(sizes, steps)


class _AddDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, output: Tensor, dropout: DropoutBits) -> Tensor:
        hidden, output = hidden.contiguous(), output.to(hidden.dtype).contiguous()
        ctx.save_for_backward(dropout.bits)
        ctx.rest = dropout.first_kept, dropout.scale
        total = torch.empty_like(hidden)
        arrays = _address(hidden), _address(output), *dropout.arguments, _address(total)
        _kernels().add_kept(_element_type(hidden), hidden.numel(), *arrays)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dropout, grad = DropoutBits(*ctx.saved_tensors, *ctx.rest), grads[0].contiguous()
        output_grad = torch.empty_like(grad)
        _kernels().scale_kept(
            _element_type(grad), grad.numel(), _address(grad), *dropout.arguments, _address(output_grad)
        )
        return grad, output_grad, None


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        rows, width = rows.contiguous(), rows.size(-1)
        count = rows.numel() // width
        normed, statistics = torch.empty_like(rows), torch.empty(2 * count)
        arrays = _address(rows), _address(gain), _address(bias), epsilon, _address(normed), *_halves(statistics)
        _kernels().normalize_rows(_element_type(rows), count, width, *arrays)
        ctx.save_for_backward(rows, gain, statistics)
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, gain, statistics = ctx.saved_tensors
        grad, width = grads[0].contiguous(), rows.size(-1)
        row_grads, gain_grad, bias_grad = torch.empty_like(rows), torch.empty_like(gain), torch.empty_like(gain)
        arrays = _address(grad), _address(rows), _address(gain), *_halves(statistics), _address(row_grads)
        sums = np.zeros((2, width), np.float32)
        outputs = _address(gain_grad), _address(bias_grad)
        _kernels().normalize_rows_backward(_element_type(rows), rows.numel() // width, width, *arrays, sums, *outputs)
        return row_grads, gain_grad, bias_grad, None


def _halves(numbers: Tensor) -> tuple[int, int]:
    """The addresses of the two halves of a float32 tensor."""
    return _address(numbers), _address(numbers) + 2 * numbers.numel()


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dropout: DropoutBits) -> Tensor:
        values = values.contiguous()
        out = torch.empty_like(values)
        _kernels().rectify_values(
            _element_type(values), values.numel(), _address(values), *dropout.arguments, _address(out)
        )
        ctx.save_for_backward(out)
        ctx.scale = dropout.scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        grad, input_grad = grads[0].contiguous(), torch.empty_like(out)
        _kernels().rectify_values_backward(
            _element_type(out), out.numel(), _address(grad), _address(out), ctx.scale, _address(input_grad)
        )
        return input_grad, None


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        ids: Tensor,
        positions: Tensor,
        dropout: DropoutBits,
        dtype: torch.dtype,
        sums: Tensor | None,
    ) -> Tensor:
        weight, ids, positions = weight.contiguous(), ids.contiguous(), positions.contiguous()
        out = weight.new_empty((*ids.shape, weight.size(1)), dtype=dtype)
        factor = math.sqrt(weight.size(1))
        arrays = _address(weight), factor, _address(positions), *dropout.arguments, _address(out)
        if not _kernels().embed_ids(_element_type(out), *ids.shape, _address(ids), *weight.shape, *arrays):
            raise IndexError(f"ids from {int(ids.min())} to {int(ids.max())} do not fit {len(weight)} embeddings")
        ctx.save_for_backward(ids, dropout.bits)
        ctx.rest, ctx.sums = (dropout.first_kept, dropout.scale, factor, weight.shape), sums
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ids, bits = ctx.saved_tensors
        first_kept, scale, factor, shape = ctx.rest
        grad, table_grad = grads[0].contiguous(), torch.zeros(shape) if ctx.sums is None else ctx.sums
        arrays = _address(grad), factor, *DropoutBits(bits, first_kept, scale).arguments, _address(table_grad)
        _kernels().embed_ids_backward(_element_type(grad), ids.numel(), _address(ids), *shape, *arrays)
        return (table_grad if ctx.sums is None else None), *[None] * 5


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, packed: Tensor | None, mask: Tensor | None, num_heads: int, dropout: DropoutBits
    ) -> Tensor:
        queries = queries.contiguous()
        packed, mask = (None if each is None else each.contiguous() for each in (packed, mask))
        sources = queries if packed is None else packed
        rows, length, width = queries.shape
        width = width // 3 if packed is None else width
        buffers = _AttentionBuffers(length, sources.size(1), width // num_heads // VECTOR_WIDTH)
        weights = torch.empty(rows, num_heads, length, *buffers.shape_of_scores[1:])
        out = queries.new_empty(rows, length, width)
        shape = rows, num_heads, length, sources.size(1), buffers.chunks
        inputs = _address(queries), _address(sources), packed is None, *_mask_strides(mask), *dropout.arguments
        working = buffers.query(), buffers.key(), buffers.turned(), buffers.scores(), buffers.query()
        _kernels().attention_forward(_element_type(queries), shape, *inputs, *working, _address(weights), _address(out))
        ctx.save_for_backward(queries, packed, weights, dropout.bits)
        ctx.rest = shape, buffers, dropout.first_kept, dropout.scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        queries, packed, weights, bits = ctx.saved_tensors
        shape, buffers, first_kept, scale = ctx.rest
        sources, grad = queries if packed is None else packed, grads[0].contiguous()
        query_grads = torch.empty_like(queries)
        source_grads = query_grads if packed is None else torch.empty_like(packed)
        place = DropoutBits(bits, first_kept, scale).arguments
        inputs = _address(grad), _address(queries), _address(sources), packed is None, *place, _address(weights)
        working = (
            buffers.query(),
            buffers.key(),
            buffers.turned(),
            buffers.scores(),
            buffers.scores(),
            buffers.query(),
            buffers.key(),
        )
        _kernels().attention_backward(
            _element_type(queries), shape, *inputs, *working, _address(query_grads), _address(source_grads)
        )
        return query_grads, None if packed is None else source_grads, None, None, None


def _mask_strides(mask: Tensor | None) -> tuple[int, tuple[int, int]]:
    """The address of a mask, and its strides to the next sentence and the next query. A stride of 0 means: the same."""
    if mask is None:
        return 0, (0, 0)
    queries = 0 if mask.size(-2) == 1 else mask.stride(-2)
    return _address(mask), (0 if mask.dim() < 4 or mask.size(0) == 1 else mask.stride(0), queries)


@dataclass(frozen=True, slots=True)
class _AttentionBuffers:
    """Buffers for one head's attention, in chunks of VECTOR_WIDTH numbers. Rows are padded to whole tiles."""

    queries: int
    keys: int
    chunks: int

    def query(self) -> Any:
        return np.zeros((_to_multiple(self.queries, TILE_ROWS), self.chunks, VECTOR_WIDTH), np.float32)

    def key(self) -> Any:
        return np.zeros((_to_multiple(self.keys, VECTOR_WIDTH), self.chunks, VECTOR_WIDTH), np.float32)

    def turned(self) -> Any:
        return np.zeros((self.chunks * VECTOR_WIDTH, *self.shape_of_scores[1:]), np.float32)

    def scores(self) -> Any:
        return np.zeros(self.shape_of_scores, np.float32)

    @property
    def shape_of_scores(self) -> tuple[int, int, int]:
        return _to_multiple(self.queries, TILE_ROWS), -(-self.keys // VECTOR_WIDTH), VECTOR_WIDTH


def _to_multiple(count: int, of: int) -> int:
    return -(-count // of) * of


@lru_cache(maxsize=1)
def _kernels() -> Any:
    from dragoman.kernels import training as kernels

    return kernels


_ELEMENT_TYPES = {torch.float32: np.float32(0), torch.bfloat16: np.uint16(0)}


def _element_type(tensor: Tensor) -> Any:
    """A number of the type in which the compiled functions read a tensor."""
    return _ELEMENT_TYPES[tensor.dtype]


def _address(tensor: Tensor) -> int:
    """The memory address of a tensor."""
    return tensor.data_ptr()
