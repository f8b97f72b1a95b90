"""Scaling of weights that the tensor decoder and the compiled decoder share."""

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]


def attention_scales(d_model: int, num_heads: int, unit: float = 1.0) -> _Floats:
    """Factors (3 d_model,) of the outputs of a joint query, key and value projection.

    The query gets the scale of attention scores, 1 / sqrt(K), times `unit`, which is log2 e for scores in base 2.
    """
    scales = np.ones(3 * d_model, np.float32)
    scales[:d_model] = unit * (d_model // num_heads) ** -0.5
    return scales


def quantize_rows(weight: _Floats, largest: int) -> tuple[_Floats, _Floats]:
    """Quantize each row of a weight to integers from -largest to largest.

    Returns the integers (as float32) and the scale of each row. Their product is approximately the weight.
    """
    scale = np.maximum(np.abs(weight).max(1), np.finfo(np.float32).tiny) / np.float32(largest)
    return np.rint(weight / scale[:, None]), scale
