"""Matrix products with fixed weights, in the number format that suits them: y = x W^T + b for rows of x.

The weights are converted once. On a CPU oneDNN can also lay them out once the way its kernels read them, which saves
up to three quarters of the time of a product with few rows. int8 is dynamic: every row of x gets its own scale (its
largest magnitude is 127), every output column has its own, and the sums are exact integers, so that a row's result does
not depend on the other rows.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.devices.device import multiplies_bfloat16
from dragoman.errors import ConfigError
from dragoman.inference.weight_scales import attention_scales, quantize_rows
from dragoman.kernels.compiling import can_compile
from dragoman.model.attention import MultiHeadAttention

ProductFunction = Callable[[Tensor], Tensor]
"""(rows, in) to (rows, out). What comes out is float32, or bfloat16 where the product is in bfloat16."""

# Below this many weights the layout gains less than the call costs (measured: docs/log.md).
_MIN_WEIGHTS_TO_PACK = 2**17
# int8 halves the time of large products; on small ones quantising the rows costs more than that.
_MIN_WEIGHTS_FOR_INT8 = 2**17
# A bfloat16 call costs 10 us more than a float32 one, which on small weights pays from about this many rows. Of the
# tiny model, one sentence takes 1.2 to 1.4 times as long all in bfloat16, 100 up to 1.3 times in float32 (docs/log.md).
_MIN_ROWS_FOR_BFLOAT16 = 24
_LARGEST = 127
_ZERO_POINT = 128


def product_function(
    weight: Float[Tensor, "out in"], bias: Float[Tensor, "out"] | None, precision: str
) -> ProductFunction:
    """The fastest product of this size in `precision` (float32, bfloat16 or int8), from float32 weights."""
    on_cpu = weight.device.type == "cpu"
    if precision == "int8" and weight.numel() >= _MIN_WEIGHTS_FOR_INT8:
        return _Int8(weight, bias)
    large = weight.numel() >= _MIN_WEIGHTS_TO_PACK
    if precision == "float32":
        return _Packed(weight, bias) if on_cpu and large and _can_pack(torch.float32) else _Plain(weight, bias)
    if not on_cpu:
        return _Plain(weight.bfloat16(), _bfloat16(bias))
    lower = (_Packed if _can_pack(torch.bfloat16) else _Plain)(weight.bfloat16(), _bfloat16(bias))
    return lower if large else _ByRows(_Plain(weight, bias), lower)


def scale_input(attention: MultiHeadAttention, first: int, last: int, precision: str) -> ProductFunction:
    """That of the parts `first` to `last` of query, key and value; the query's weights hold the scale of the scores."""
    d_model = attention.in_weight.size(1)
    scales = torch.from_numpy(attention_scales(d_model, attention.num_heads)).to(attention.in_weight.device)
    part = slice(first * d_model, last * d_model)
    bias = None if attention.in_bias is None else (attention.in_bias * scales)[part]
    return product_function((attention.in_weight * scales[:, None])[part], bias, precision)


class _Plain:
    """torch's own product, in the format of the weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias, self._dtype = weight.t(), bias, weight.dtype

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype != self._dtype:
            rows = rows.to(self._dtype)
        return torch.mm(rows, self._weight) if self._bias is None else torch.addmm(self._bias, rows, self._weight)


class _Packed:
    """oneDNN's linear on weights in its own layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._dtype, self._bias = weight.dtype, bias
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        linear = torch.ops.mkldnn._linear_pointwise
        if rows.dtype != self._dtype:
            rows = rows.to(self._dtype)
        return linear(rows, self._weight, self._bias, "none", [], "")  # type: ignore[no-any-return]


class _ByRows:
    """One product for few rows, another for many."""

    def __init__(self, few: ProductFunction, many: ProductFunction) -> None:
        self._few, self._many = few, many

    def __call__(self, rows: Tensor) -> Tensor:
        return (self._many if rows.size(0) >= _MIN_ROWS_FOR_BFLOAT16 else self._few)(rows)


class _Int8:
    """8-bit integers times 8-bit integers, summed in 32 bits; the scales come back in afterwards."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        integers, scale = (torch.from_numpy(array) for array in quantize_rows(weight.detach().numpy(), _LARGEST))
        self._weight = torch.ops.onednn.qlinear_prepack(integers.to(torch.int8), [_TYPICAL_ROWS, weight.size(1)])
        self._scale, self._zeros = scale, torch.zeros(weight.size(0), dtype=torch.int64)
        self._bias = bias
        # Truncation after adding this rounds to the nearest and puts zero where the kernel expects it.
        self._offset = torch.tensor(_ZERO_POINT + 0.5)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype != torch.float32:
            rows = rows.float()
        largest = torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_())
        scale = largest.clamp_(min=1e-30).div_(_LARGEST)
        bytes_ = torch.addcdiv(self._offset, rows, scale).to(torch.uint8)
        sums = torch.ops.onednn.qlinear_pointwise(
            bytes_,
            1.0,
            _ZERO_POINT,
            self._weight,
            self._scale,
            self._zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return sums.mul_(scale) if self._bias is None else torch.addcmul(self._bias, sums, scale)


_TYPICAL_ROWS = 64


def resolve_inference_precision(name: str, device: torch.device) -> str:
    """`auto` is the fastest of int8, int16, bfloat16 and float32 that the device multiplies in.

    A CPU that does not multiply in bfloat16 gets float32 instead, which is faster there, and more exact. Raises
    ConfigError where the device cannot do what else is asked for.
    """
    if name == "auto":
        if _multiplies_int8(device):
            return "int8"
        if _multiplies_int16(device):
            return "int16"
        return "bfloat16" if multiplies_bfloat16(device) else "float32"
    if name == "bfloat16" and device.type == "cpu" and not multiplies_bfloat16(device):
        return "float32"
    if name == "int8" and not _multiplies_int8(device):
        raise ConfigError(
            "`inference.precision` is int8, which takes a CPU with VNNI instructions, but "
            f"{'this one has none' if device.type == 'cpu' else f'the model is on {device}'}. "
            "Use auto, int16, bfloat16 or float32."
        )
    if name == "int16" and not _multiplies_int16(device):
        raise ConfigError(
            "`inference.precision` is int16, which takes an x86 CPU with AVX2, and numba, but the model is "
            f"on {device}. Use auto, bfloat16 or float32."
        )
    return name


def _multiplies_int8(device: torch.device) -> bool:
    """Whether it is a CPU that sums products of bytes exactly (older ones saturate at 16 bits) and torch can use it."""
    if device.type != "cpu" or not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        return False
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_vnni") or capabilities.get("amx_int8"))


def _multiplies_int16(device: torch.device) -> bool:
    """Whether it is a CPU that adds products of 16-bit integers, and the search can be compiled for it."""
    if device.type != "cpu" or not can_compile():
        return False
    from dragoman.kernels.tiles import HAS_SHORT_PRODUCTS

    return HAS_SHORT_PRODUCTS


def _bfloat16(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.bfloat16()


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch has oneDNN and its linear on packed weights of this type (torch.compile's, not documented)."""
    available = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    if not (available and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")):
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
