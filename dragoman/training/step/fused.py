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

from dragoman.kernels import VECTOR_WIDTH
from dragoman.kernels.compiling import can_compile
from dragoman.kernels.processor import TILE_ROWS, to_multiple

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
        return self.bits.data_ptr() if self.drops else 0, self.first_kept, self.scale


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
    """True if each query may attend to the first keys, at least one, and to no others (`dragoman.model.attention`)."""
    return mask is None or (bool(mask[..., 0].all()) and bool((mask[..., 1:] <= mask[..., :-1]).all()))


def add_dropout(hidden: Float[Tensor, "*shape"], output: Float[Tensor, "*shape"], dropout: DropoutBits) -> Tensor:
    """hidden + dropout(output)."""
    return _AddDropout.compute(hidden, output, dropout) if dropout.drops else hidden + output


def linear(
    hidden: Float[Tensor, "*rows in"], weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None
) -> Float[Tensor, "*rows out"]:
    """x W^T + b as torch.nn.functional.linear computes it, with `missing_rows` rows of zeros added to x."""
    count = hidden.numel() // hidden.size(-1)
    missing = missing_rows(count, hidden)
    if count and active(hidden):
        return _Linear.compute(hidden, weight, bias, count + missing)
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
    _call(_kernels().exponentiate_rows, rows, *rows.shape, rows, totals)
    return totals


def random_words(generator: np.random.SFC64, count: int) -> Int64[Tensor, " {count}"]:
    """`generator.random_raw(count)`: on compiled functions, without holding Python's lock."""
    if not can_compile():
        return torch.from_numpy(generator.random_raw(count).view(np.int64))
    words, state = torch.empty(count, dtype=torch.int64), generator.state
    _kernels().fill_random(state["state"]["state"], count, words.data_ptr())
    generator.state = state
    return words


def accumulate(sums: Float[Tensor, "*shape"], values: Float[Tensor, "*shape"]) -> None:
    """sums += values, where the sums are float32."""
    _call(_kernels().add_values, values, values.numel(), sums, values)


class _Operation(torch.autograd.Function):
    """An operation with a gradient of its own."""

    @classmethod
    def compute(cls, *inputs: Any) -> Tensor:
        """The output for the inputs of `forward`."""
        return cls.apply(*inputs)  # type: ignore[no-any-return, no-untyped-call]


class _Linear(_Operation):
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
            _call(_kernels().add_rows, grad, *grad.shape, grad, sums, bias_grad)
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
    _call(_kernels().pad_rows, hidden, count, width, hidden, rows, padded)
    return padded


def _cut_rows(rows: Tensor, shape: torch.Size) -> Tensor:
    """The first rows, in `shape` except for its last dimension. One operation of torch, because each takes the lock."""
    sizes, steps = [*shape[:-1], rows.size(1)], [1]
    for size in reversed(sizes[1:]):
        steps.insert(0, steps[0] * size)
    return rows.as_strided(sizes, steps)


class _AddDropout(_Operation):
    """hidden + dropout(output)."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, output: Tensor, dropout: DropoutBits) -> Tensor:
        hidden, output = hidden.contiguous(), output.to(hidden.dtype).contiguous()
        ctx.save_for_backward(dropout.bits)
        ctx.rest = dropout.first_kept, dropout.scale
        total = torch.empty_like(hidden)
        _call(_kernels().add_kept, hidden, hidden.numel(), hidden, output, *dropout.arguments, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dropout, grad = DropoutBits(*ctx.saved_tensors, *ctx.rest), grads[0].contiguous()
        output_grad = torch.empty_like(grad)
        _call(_kernels().scale_kept, grad, grad.numel(), grad, *dropout.arguments, output_grad)
        return grad, output_grad, None


class _LayerNorm(_Operation):
    """Layer norm over the last dimension (Ba et al. 2016)."""

    @staticmethod
    def forward(ctx: Any, rows: Float[Tensor, "*rows D"], gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        rows, width = rows.contiguous(), rows.size(-1)
        count = rows.numel() // width
        normed, statistics = torch.empty_like(rows), torch.empty(2 * count)
        _call(_kernels().normalize_rows, rows, count, width, rows, gain, bias, epsilon, normed, *_halves(statistics))
        ctx.save_for_backward(rows, gain, statistics)
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, gain, statistics = ctx.saved_tensors
        grad, width = grads[0].contiguous(), rows.size(-1)
        found = torch.empty_like(rows), torch.empty_like(gain), torch.empty_like(gain)
        row_grads, gain_grad, bias_grad = found
        inputs, sums = (grad, rows, gain, *_halves(statistics)), np.zeros((2, width), np.float32)
        shape = rows.numel() // width, width
        _call(_kernels().normalize_rows_backward, rows, *shape, *inputs, row_grads, sums, gain_grad, bias_grad)
        return *found, None


def _halves(numbers: Tensor) -> tuple[int, int]:
    """The addresses of the two halves of a float32 tensor."""
    return numbers.data_ptr(), numbers.data_ptr() + 2 * numbers.numel()


class _ReluDropout(_Operation):
    """dropout(max(values, 0))."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dropout: DropoutBits) -> Tensor:
        values = values.contiguous()
        out = torch.empty_like(values)
        _call(_kernels().rectify_values, values, values.numel(), values, *dropout.arguments, out)
        ctx.save_for_backward(out)
        ctx.scale = dropout.scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        grad, input_grad = grads[0].contiguous(), torch.empty_like(out)
        _call(_kernels().rectify_values_backward, out, out.numel(), grad, out, ctx.scale, input_grad)
        return input_grad, None


class _Embed(_Operation):
    """dropout(sqrt(D) * weight[ids] + positions) in `dtype`. The positions get no gradient.

    The gradient of the weight is added to `sums` (float32) if it is given. Raises IndexError for an id without a row.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Float[Tensor, "V D"],
        ids: Int64[Tensor, "B T"],
        positions: Float[Tensor, "T D"],
        dropout: DropoutBits,
        dtype: torch.dtype,
        sums: Float[Tensor, "V D"] | None,
    ) -> Float[Tensor, "B T D"]:
        weight, ids, positions = weight.contiguous(), ids.contiguous(), positions.contiguous()
        out = weight.new_empty((*ids.shape, weight.size(1)), dtype=dtype)
        factor = math.sqrt(weight.size(1))
        inputs = *ids.shape, ids, *weight.shape, weight, factor, positions, *dropout.arguments
        if not _call(_kernels().embed_ids, out, *inputs, out):
            raise IndexError(f"ids from {int(ids.min())} to {int(ids.max())} do not fit {len(weight)} embeddings")
        ctx.save_for_backward(ids, dropout.bits)
        ctx.rest, ctx.factor, ctx.shape, ctx.sums = (dropout.first_kept, dropout.scale), factor, weight.shape, sums
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ids, bits = ctx.saved_tensors
        grad, table_grad = grads[0].contiguous(), torch.zeros(ctx.shape) if ctx.sums is None else ctx.sums
        inputs = ids.numel(), ids, *ctx.shape, grad, ctx.factor, *DropoutBits(bits, *ctx.rest).arguments
        _call(_kernels().embed_ids_backward, grad, *inputs, table_grad)
        return (table_grad if ctx.sums is None else None), *[None] * 5


class _Attend(_Operation):
    """Attention to keys and values side by side in `packed`, or beside the queries if `packed` is None."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Float[Tensor, "B T projected"],
        packed: Float[Tensor, "B S KV"] | None,
        mask: Bool[Tensor, "..."] | None,
        num_heads: int,
        dropout: DropoutBits,
    ) -> Float[Tensor, "B T D"]:
        queries = queries.contiguous()
        packed, mask = (None if each is None else each.contiguous() for each in (packed, mask))
        sources = queries if packed is None else packed
        rows, length, width = queries.shape
        width = width // 3 if packed is None else width
        shape = rows, num_heads, length, sources.size(1), width // num_heads // VECTOR_WIDTH
        query, key, turned, scores = _shapes_of_buffers(*shape[2:])
        weights = torch.empty(rows, num_heads, length, *scores[1:])
        out = queries.new_empty(rows, length, width)
        inputs = queries, sources, packed is None, *_mask_strides(mask), *dropout.arguments
        working = [np.zeros(each, np.float32) for each in (query, key, turned, scores, query)]
        _call(_kernels().attention_forward, queries, shape, *inputs, *working, weights, out)
        ctx.save_for_backward(queries, packed, weights, dropout.bits)
        ctx.shape, ctx.rest = shape, (dropout.first_kept, dropout.scale)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        queries, packed, weights, bits = ctx.saved_tensors
        sources, grad = queries if packed is None else packed, grads[0].contiguous()
        query_grads = torch.empty_like(queries)
        source_grads = query_grads if packed is None else torch.empty_like(packed)
        inputs = grad, queries, sources, packed is None, *DropoutBits(bits, *ctx.rest).arguments, weights
        query, key, turned, scores = _shapes_of_buffers(*ctx.shape[2:])
        working = [np.zeros(each, np.float32) for each in (query, key, turned, scores, scores, query, key)]
        _call(_kernels().attention_backward, queries, ctx.shape, *inputs, *working, query_grads, source_grads)
        return query_grads, None if packed is None else source_grads, None, None, None


layer_norm = _LayerNorm.compute
relu_dropout = _ReluDropout.compute
embed = _Embed.compute
attention = _Attend.compute


def _mask_strides(mask: Tensor | None) -> tuple[Tensor | int, tuple[int, int]]:
    """A mask, or 0, and its strides to the next sentence and the next query. A stride of 0 means: the same."""
    if mask is None:
        return 0, (0, 0)
    queries = 0 if mask.size(-2) == 1 else mask.stride(-2)
    return mask, (0 if mask.dim() < 4 or mask.size(0) == 1 else mask.stride(0), queries)


def _shapes_of_buffers(num_queries: int, num_keys: int, chunks: int) -> tuple[tuple[int, int, int], ...]:
    """The shapes of one head's queries, keys, transposed keys and scores. Rows are padded to whole tiles.

    A head has a width of `chunks` times VECTOR_WIDTH. Scores, too, are in chunks of VECTOR_WIDTH numbers.
    """
    rows, columns = to_multiple(num_queries, TILE_ROWS), -(-num_keys // VECTOR_WIDTH)
    query, key = (rows, chunks, VECTOR_WIDTH), (columns * VECTOR_WIDTH, chunks, VECTOR_WIDTH)
    return query, key, (chunks * VECTOR_WIDTH, columns, VECTOR_WIDTH), (rows, columns, VECTOR_WIDTH)


@lru_cache(maxsize=1)
def _kernels() -> Any:
    from dragoman.kernels import training as kernels

    return kernels


_ELEMENT_TYPES = {torch.float32: np.float32(0), torch.bfloat16: np.uint16(0)}
"""A number of the type in which the compiled functions read a tensor."""


def _call(function: Any, like: Tensor, *arguments: Any) -> Any:
    """Call a compiled function for the element type of `like`. Tensors are passed as their addresses."""
    addresses = [each.data_ptr() if isinstance(each, Tensor) else each for each in arguments]
    return function(_ELEMENT_TYPES[like.dtype], *addresses)
