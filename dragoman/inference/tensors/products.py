"""Matrix products with fixed weights, y = x W^T + b, in the fastest form for their size and precision.

Weights are converted once, before the search. On a CPU they are also packed into the layout that oneDNN's kernels read.
This saves up to three quarters of the time of a product with few rows.

int8 is quantized dynamically. Every row of x and every output column has its own scale, which maps the largest
magnitude to 127. Sums are exact integers, so the result of a row does not depend on the other rows.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.bundle.quantization import attention_scales, quantize_rows
from dragoman.model.attention import MultiHeadAttention

ProductFunction = Callable[[Tensor], Tensor]
"""Function from (rows, in) to (rows, out). The output is float32, or bfloat16 for products in bfloat16."""

# With fewer weights, packing gains less than oneDNN's call costs (docs/log.md).
_MIN_WEIGHTS_TO_PACK = 2**17
# int8 halves the time of large products. In smaller ones quantizing the rows costs more than it saves.
_MIN_WEIGHTS_FOR_INT8 = 2**17
# A bfloat16 call costs 10 us more than a float32 call. With small weights it is faster from about this many rows. In
# the tiny model, one sentence takes 1.2 to 1.4 times as long in pure bfloat16, and 100 sentences up to 1.3 times as
# long in pure float32 (docs/log.md).
_MIN_ROWS_FOR_BFLOAT16 = 24
# Number of rows that oneDNN chooses the layout of packed weights for.
_TYPICAL_ROWS = 64
_LARGEST = 127
_ZERO_POINT = 128


def product_function(
    weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None, precision: str
) -> ProductFunction:
    """The fastest product with these float32 weights in `precision`: float32, bfloat16 or int8.

    Small weights are not multiplied in int8, because that would be slower.
    """
    on_cpu = weight.device.type == "cpu"
    if precision == "int8" and weight.numel() >= _MIN_WEIGHTS_FOR_INT8:
        return _Int8(weight, bias)
    large = weight.numel() >= _MIN_WEIGHTS_TO_PACK
    if precision == "float32":
        return _Packed(weight, bias) if on_cpu and large and _can_pack(torch.float32) else _Plain(weight, bias)
    halves = weight.bfloat16(), None if bias is None else bias.bfloat16()
    if not on_cpu:
        return _Plain(*halves)
    many = (_Packed if _can_pack(torch.bfloat16) else _Plain)(*halves)
    if large:
        return many
    few = _Plain(weight, bias)
    return lambda rows: (many if rows.size(0) >= _MIN_ROWS_FOR_BFLOAT16 else few)(rows)


def scale_input(attention: MultiHeadAttention, first: int, last: int, precision: str) -> ProductFunction:
    """The product with parts `first` to `last` of the joint projection of query (0), key (1) and value (2).

    The query's weights are multiplied by 1 / sqrt(K), the scale of attention scores.
    """
    d_model = attention.in_weight.size(1)
    scales = torch.from_numpy(attention_scales(d_model, attention.num_heads)).to(attention.in_weight.device)
    part = slice(first * d_model, last * d_model)
    bias = None if attention.in_bias is None else (attention.in_bias * scales)[part]
    return product_function((attention.in_weight * scales[:, None])[part], bias, precision)


class _Plain:
    """torch's product, in the type of the weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias, self._dtype = weight.t(), bias, weight.dtype

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype != self._dtype:
            rows = rows.to(self._dtype)
        return torch.mm(rows, self._weight) if self._bias is None else torch.addmm(self._bias, rows, self._weight)


class _Packed:
    """oneDNN's linear on weights in oneDNN's layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._dtype, self._bias = weight.dtype, bias
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        linear = torch.ops.mkldnn._linear_pointwise
        if rows.dtype != self._dtype:
            rows = rows.to(self._dtype)
        return linear(rows, self._weight, self._bias, "none", [], "")  # type: ignore[no-any-return]


class _Int8:
    """Product of 8-bit integers, summed in 32 bits and then multiplied by the scales."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        integers, scale = (torch.from_numpy(array) for array in quantize_rows(weight.detach().numpy(), _LARGEST))
        self._weight = torch.ops.onednn.qlinear_prepack(integers.to(torch.int8), [_TYPICAL_ROWS, weight.size(1)])
        self._scale, self._zeros = scale, torch.zeros(weight.size(0), dtype=torch.int64)
        self._bias = bias
        # Adding this before truncation rounds to the nearest and moves zero to the kernel's zero point.
        self._offset = torch.tensor(_ZERO_POINT + 0.5)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype != torch.float32:
            rows = rows.float()
        largest = torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_())
        scale = largest.clamp_(min=1e-30).div_(_LARGEST)
        bytes_ = torch.addcdiv(self._offset, rows, scale).to(torch.uint8)
        inputs, weights = (bytes_, 1.0, _ZERO_POINT), (self._weight, self._scale, self._zeros)
        plain = None, 1.0, 0, torch.float32, "none"  # no bias, no output scale, float32, no operation after it
        sums = torch.ops.onednn.qlinear_pointwise(*inputs, *weights, *plain, [], "")
        return sums.mul_(scale) if self._bias is None else torch.addcmul(self._bias, sums, scale)


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch has oneDNN's linear on packed weights of this type.

    torch does not document the operation. torch.compile uses it.
    """
    available = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    if not (available and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")):
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
