"""Quantized weights: linear maps in integers for the search, arrays of quantized models, and their float32 weights.

Constant factors are multiplied into the weights before they are quantized: 1 / sqrt(K) of attention scores, and log2 e
of attention scores and logits, because the search computes powers of 2 instead of exponentials.
"""

import math
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.weights import INTEGERS, SCALE, check_stored_precision, is_embedding, stored_precision
from dragoman.config import ModelSettings
from dragoman.kernels.tiles import largest_integer
from dragoman.model.shapes import Arrays

_Floats = NDArray[np.float32]
_LOG2_E = math.log2(math.e)
_QUANTIZED = re.compile(r"(.*\.(?:in_|out\.|inner\.|outer\.)|projection\.)weight")


class Product(NamedTuple):
    """One linear map: weight * scale @ input + bias, with the constant factors."""

    weight: NDArray[Any]  # (out, in), float32, int8 or int16
    scale: _Floats  # (out,), 1 for float32
    bias: _Floats  # (out,)


def quantized_arrays(
    settings: ModelSettings, arrays: Arrays, precision: str, embeddings: bool = False
) -> dict[str, NDArray[Any]]:
    """The arrays of a model with quantized matrices.

    A matrix of a layer, and a projection that is not tied, has integers (int8 or int16) instead of float32 under its
    name, and the float32 scale of each row under the name with ``_scale`` after it. Integers and scales have the
    constant factors, as in `make_product`. Biases, norms and learned positions stay as they are.

    Embeddings stay in float32, as the search reads them, unless `embeddings` is true. Without them, `CompiledWeights`
    makes the same search of both models, bit for bit. A tied embedding is quantized when it is loaded, as the
    projection.

    The arrays do not depend on the processor: quantizing takes exact operations only.

    Parameters
    ----------
    settings
        The model's settings.
    arrays
        The model's float32 parameters by name, as in `model.shapes.parameter_shapes`.
    precision
        "int8" or "int16".
    embeddings
        Whether embeddings are quantized too.

    Raises
    ------
    ModelError
        If the arrays are already quantized in another precision.
    """
    check_stored_precision(stored_precision(arrays), precision)
    found: dict[str, NDArray[Any]] = dict(arrays)
    for name, array in arrays.items():
        if matched := _QUANTIZED.fullmatch(name):
            product = make_product(settings, arrays, matched[1], precision)
            found[name], found[name + SCALE] = product.weight, product.scale
        elif embeddings and is_embedding(name) and name + SCALE not in arrays:
            found[name], found[name + SCALE] = quantize_weight(array, precision)
    return found


def float32_arrays(settings: ModelSettings, arrays: Arrays, only_embeddings: bool = False) -> dict[str, NDArray[Any]]:
    """The float32 weights that quantized arrays stand for: integers times scales, without the constant factors.

    They differ from the weights that were quantized by half a step of each row at most. If `only_embeddings` is true,
    other matrices stay integers, as the search needs them.
    """
    found = dict(arrays)
    for name in arrays:
        if name + SCALE in arrays and (is_embedding(name) or not only_embeddings):
            scale, factors = found.pop(name + SCALE), _factors(settings, name.removesuffix("weight"))
            found[name] = arrays[name] * (scale if factors is None else scale / factors)[:, None]
    return found


def make_product(settings: ModelSettings, arrays: Arrays, name: str, precision: str) -> Product:
    """The linear map whose parameters start with `name`, quantized unless the precision is float32.

    ``decoder.layers.0.cross_attn.in_`` is the joint projection of query, key and value, and ``projection.`` the one to
    the vocabulary. The factors of a stored integer weight are in its scale.
    """
    weight, factors = _weight(arrays, name), _factors(settings, name)
    bias, scale = arrays.get(f"{name}bias"), arrays.get(f"{name}weight{SCALE}")
    if scale is None:
        weight = weight if factors is None else weight * factors[:, None]
        weight, scale = quantize_weight(weight, precision)
    if bias is None:
        bias = np.zeros(len(weight), np.float32)
    elif factors is not None:
        bias = bias * factors
    return Product(weight, scale, bias)


def quantize_weight(weight: _Floats, precision: str) -> tuple[NDArray[Any], _Floats]:
    """The weight in `precision`, and the scale of each row."""
    if precision == "float32":
        return weight, np.ones(len(weight), np.float32)
    integers, scale = quantize_rows(weight, largest_integer(precision, weight.shape[1]))
    return integers.astype(INTEGERS[precision]), scale


def quantize_rows(weight: _Floats, largest: int) -> tuple[_Floats, _Floats]:
    """Quantize each row of a weight to integers from -largest to largest.

    Returns the integers (as float32) and the scale of each row. Their product is approximately the weight.
    """
    scale = np.maximum(np.abs(weight).max(1), np.finfo(np.float32).tiny) / np.float32(largest)
    return np.rint(weight / scale[:, None]), scale


def attention_scales(d_model: int, num_heads: int, unit: float = 1.0) -> _Floats:
    """Factors (3 d_model,) of the outputs of a joint query, key and value projection.

    The query gets the scale of attention scores, 1 / sqrt(K), times `unit`, which is log2 e for scores in base 2.
    """
    scales = np.ones(3 * d_model, np.float32)
    scales[:d_model] = unit * (d_model // num_heads) ** -0.5
    return scales


def _weight(arrays: Arrays, name: str) -> _Floats:
    """A projection that is tied has the name of the embedding."""
    names = [f"{name}weight"]
    if name == "projection.":
        names += ["tgt_embedding.weight", "src_embedding.weight"]
    return next(arrays[one] for one in names if one in arrays)


def _factors(settings: ModelSettings, name: str) -> _Floats | None:
    """The factor of each output, or None where it is 1."""
    if name == "projection.":
        return np.full(1, _LOG2_E, np.float32)
    if name.endswith("_attn.in_"):
        return attention_scales(settings.d_model, settings.num_heads, _LOG2_E)
    return None
