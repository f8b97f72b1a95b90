"""Read and write model.safetensors as numpy arrays, and quantize them.

The format is a header in JSON (name, type, shape and offsets of each tensor) and the bytes of the tensors
(github.com/huggingface/safetensors). It cannot contain code. Training writes float32. The matrices of a quantized model
are integers, int8 or int16, and a tensor with ``_scale`` after the name has the float32 scale of each row.

`folder` reads and writes models with this module, `training/run/checkpoint.py` also the state of the optimizer, and
`exchange/marian.py` a file for transformers.
"""

import errno
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save_file

from dragoman.config import ModelSettings
from dragoman.errors import ModelError
from dragoman.kernels.processor import largest_integer
from dragoman.model.shapes import Arrays, Shapes

SCALE = "_scale"
"""What follows the name of a matrix of integers in the name of its scales."""
INTEGERS: Mapping[str, type[np.signedinteger[Any]]] = {"int8": np.int8, "int16": np.int16}
_STORED_INTEGERS = {"I8": np.int8, "I16": np.int16}
WEIGHTS = "model.safetensors"
_MAX_HEADER_BYTES = 1 << 10
"""Limit per tensor: name, shape and offsets take a few hundred bytes."""


def write_tensors(tensors: Mapping[str, NDArray[Any]], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file.

    Parameters
    ----------
    tensors
        Arrays by name, of any type that numpy and safetensors share.
    path
        The file. `write_folder` makes the whole folder atomic, so this function writes in place.
    metadata
        Facts for the header. transformers expects ``{"format": "pt"}``.

    Raises
    ------
    OSError
        If the file cannot be written. The library reports this as its own error with the number in its text.
    """
    try:
        save_file({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        code = int(found[1]) if found else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from error


def read_weights(path: Path, shapes: Shapes) -> dict[str, NDArray[Any]]:
    """Read the arrays of a safetensors file, which must have exactly these names and shapes, and finite numbers.

    Names, shapes and types are checked before any array is made. The arrays are copies, so the file may change
    afterwards. A checkpoint is read with this function; a model folder with `parse_weights`, after it was verified.

    Raises
    ------
    ModelError
        If the file is missing, damaged, or of another model. The message names the tensor.
    """
    check_file_size(path, shapes)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} is not a readable safetensors file: {error}.") from None
    return parse_weights(content, path, shapes)


def check_file_size(path: Path, shapes: Shapes) -> None:
    """Raise ModelError if the file is too small or too large for these shapes, before it is read as a whole."""
    least = sum(4 * math.prod(shape) for shape in shapes.values())
    most = least + _MAX_HEADER_BYTES * len(shapes)
    size = path.stat().st_size if path.exists() else 0
    if size > most or 4 * size < least:  # a byte per number at least; missing tensors are reported later, by name
        raise ModelError(
            f"{path} has {size} bytes, but the model in config.toml needs {least} to {most}. "
            "The file is of another model than config.toml."
        )


def parse_weights(content: bytes, path: Path, shapes: Shapes) -> dict[str, NDArray[Any]]:
    """`read_weights` from the content of the file."""
    try:
        found = dict(deserialize(content))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ModelError(f"{path} is not a readable safetensors file: {error}.") from None
    quantized = {name for name, tensor in found.items() if tensor["dtype"] in _STORED_INTEGERS}
    expected = {**shapes, **{name + SCALE: shapes[name][:1] for name in quantized & shapes.keys()}}
    for name in sorted(found.keys() ^ expected.keys()):
        problem = "is missing" if name in expected else "does not belong to this model"
        raise ModelError(f"{path}: tensor `{name}` {problem}. The file is of another model than config.toml.")
    if len(kinds := {found[name]["dtype"] for name in quantized}) > 1:
        raise ModelError(
            f"{path} has integers of several kinds, {' and '.join(sorted(kinds))}. Export the model again."
        )
    for name, shape in expected.items():
        kind, own_shape = found[name]["dtype"], tuple(found[name]["shape"])
        is_matrix = len(shape) == 2 and kind in _STORED_INTEGERS
        if own_shape != shape or not (kind == "F32" or is_matrix):
            raise ModelError(
                f"{path}: tensor `{name}` is {kind} {own_shape} instead of F32 {shape}. "
                "The file is of another model than config.toml."
            )
    arrays = {
        name: np.frombuffer(found[name]["data"], _STORED_INTEGERS.get(found[name]["dtype"], np.float32)).reshape(shape)
        for name, shape in expected.items()
    }
    for name, array in arrays.items():
        if name in quantized:
            continue
        # A finite sum means finite numbers, without an array of bools. The sum of finite numbers may overflow, though.
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(array.sum()) or np.isfinite(array).all()
        if not is_finite:
            raise ModelError(f"{path}: tensor `{name}` has numbers that are not finite. Use an earlier model.")
    return arrays


def stored_precision(arrays: Arrays) -> str:
    """The precision of the matrices of a model: "int8" or "int16" if they are stored as integers, else "float32"."""
    types = {array.dtype for array in arrays.values()}
    return next((precision for precision, kind in INTEGERS.items() if np.dtype(kind) in types), "float32")


def is_embedding(name: str) -> bool:
    """Whether the array with this name is an embedding, whose rows the search reads in float32."""
    return name.endswith("_embedding.weight")


def check_stored_precision(stored: str, precision: str) -> None:
    """Raise ModelError if the `stored_precision` of a model is integers, but not those of `precision`."""
    if stored not in ("float32", precision):
        raise ModelError(
            f"the model's weights are stored in {stored}, so `inference.precision` must be {stored}, but is "
            f"{precision}. Use {stored}, or the model that they were made from."
        )


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
