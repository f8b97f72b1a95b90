"""Linear maps with their constant factors, in float32 or quantized, and arrays of quantized models for storage.

Constant factors are multiplied into the weights before they are quantized: 1 / sqrt(K) of attention scores, and log2 e
of attention scores and logits, because the search computes powers of 2 instead of exponentials.
"""

import math
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.bundle.weights import INTEGERS, SCALE, Arrays, check_stored_precision, stored_precision
from dragoman.config import ModelSettings
from dragoman.inference.compiled.layout import Floats
from dragoman.inference.weight_scales import attention_scales, quantize_rows
from dragoman.kernels.tiles import largest_integer

_LOG2_E = math.log2(math.e)
_QUANTIZED = re.compile(r"(.*\.(?:in_|out\.|inner\.|outer\.)|projection\.)weight")


class Product(NamedTuple):
    """One linear map: weight * scale @ input + bias, with the constant factors."""

    weight: NDArray[Any]  # (out, in), float32, int8 or int16
    scale: Floats  # (out,), 1 for float32
    bias: Floats  # (out,)


def quantized_arrays(settings: ModelSettings, arrays: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """The arrays of a model with quantized matrices. `CompiledWeights` makes the same search of both, bit for bit.

    A matrix of a layer, and a projection that is not tied, has integers (int8 or int16) instead of float32 under its
    name, and the float32 scale of each row under the name with ``_scale`` after it. Integers and scales have the
    constant factors, as in `make_product`. Everything else stays as it is: biases, norms, learned positions and
    embeddings, which the search reads in float32. A tied embedding is quantized again when it is loaded, as the
    projection.

    The arrays do not depend on the processor: quantizing takes exact operations only.

    Parameters
    ----------
    settings
        The model's settings.
    arrays
        The model's float32 parameters by name, as in `bundle.parameters.parameter_shapes`.
    precision
        "int8" or "int16".

    Raises
    ------
    ModelError
        If the arrays are already quantized in another precision.
    """
    check_stored_precision(stored_precision(arrays), precision)
    found: dict[str, NDArray[Any]] = dict(arrays)
    for name in arrays:
        if matched := _QUANTIZED.fullmatch(name):
            product = make_product(settings, arrays, matched[1], precision)
            found[name], found[name + SCALE] = product.weight, product.scale
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


def quantize_weight(weight: Floats, precision: str) -> tuple[NDArray[Any], Floats]:
    """The weight in `precision`, and the scale of each row."""
    if precision == "float32":
        return weight, np.ones(len(weight), np.float32)
    integers, scale = quantize_rows(weight, largest_integer(precision, weight.shape[1]))
    return integers.astype(INTEGERS[precision]), scale


def _weight(arrays: Arrays, name: str) -> Floats:
    """A projection that is tied has the name of the embedding."""
    names = [f"{name}weight"]
    if name == "projection.":
        names += ["tgt_embedding.weight", "src_embedding.weight"]
    return next(arrays[one] for one in names if one in arrays)


def _factors(settings: ModelSettings, name: str) -> Floats | None:
    """The factor of each output, or None where it is 1."""
    if name == "projection.":
        return np.full(1, _LOG2_E, np.float32)
    if name.endswith("_attn.in_"):
        return attention_scales(settings.d_model, settings.num_heads, _LOG2_E)
    return None
