"""Read and write model.safetensors as numpy arrays.

The format is a header in JSON (name, type, shape and offsets of each tensor) and the bytes of the tensors
(github.com/huggingface/safetensors). It cannot contain code. Training writes float32. The matrices of a quantized model
are integers, int8 or int16, and a tensor with ``_scale`` after the name has the float32 scale of each row.

`folder` reads and writes models with this module, `training/run/checkpoint.py` also the state of the optimizer, and
`exchange/marian_export.py` a file for transformers.
"""

import errno
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save_file

from dragoman.errors import ModelError
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
