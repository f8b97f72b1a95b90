"""The scales of weights that both decoders use: of attention queries, and of integers."""

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]


def attention_scales(d_model: int, num_heads: int, unit: float = 1.0) -> _Floats:
    """What the outputs of a joint query, key and value projection are multiplied by, (3 d_model,).

    The scale of the attention scores goes into the query; `unit` is log2 e where the scores are in base 2.
    """
    scales = np.ones(3 * d_model, np.float32)
    scales[:d_model] = unit * (d_model // num_heads) ** -0.5
    return scales


def quantize_rows(weight: _Floats, largest: int) -> tuple[_Floats, _Floats]:
    """Whole numbers from -largest to largest, as float32, and the scale of each row: their product is the weight."""
    scale = np.maximum(np.abs(weight).max(1), np.finfo(np.float32).tiny) / np.float32(largest)
    return np.rint(weight / scale[:, None]), scale
