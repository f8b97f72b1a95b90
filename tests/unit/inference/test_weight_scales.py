"""Quantization of weights."""

import numpy as np
import pytest

from dragoman.inference.weight_scales import quantize_rows


@pytest.mark.parametrize("largest", [127, 2896])
def test_integers_times_scales_equal_the_weights_up_to_rounding(largest: int) -> None:
    weight = np.random.default_rng(1).normal(size=(40, 90)).astype(np.float32)
    weight[3] = 0.0
    integers, scale = quantize_rows(weight, largest)
    assert np.array_equal(integers, np.trunc(integers))
    assert (np.abs(np.delete(integers, 3, axis=0)).max(1) == largest).all()
    assert (np.abs(integers * scale[:, None] - weight) <= 0.501 * scale[:, None]).all()
    assert not integers[3].any()
