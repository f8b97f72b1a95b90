"""Arrays of quantized models: the same search, bit for bit, as quantizing when the model is loaded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

pytest.importorskip("numba", reason="numba compiles what is tested here")

from dragoman.bundle.weights import (
    float32_arrays,
    make_product,
    quantize_rows,
    quantized_arrays,
    stored_precision,
    write_tensors,
)
from dragoman.engines.compiled.weights import CompiledWeights
from dragoman.errors import ModelError
from tests.contract.random_models import KINDS, random_transformer

KINDS_AND_HEADS: dict[str, dict[str, Any]] = {
    **KINDS,
    "tied decoder": {"tie": "decoder", "attention_bias": False},
    "narrow heads": {"d_model": 60, "num_heads": 3},
}


def packed(weights: CompiledWeights) -> list[np.ndarray]:
    """All arrays of both stacks."""

    def flatten(value: Any) -> list[np.ndarray]:
        return [value] if isinstance(value, np.ndarray) else [array for part in value for array in flatten(part)]

    return flatten(weights.encoder(9).record) + flatten(weights.decoder(9).record)


@pytest.mark.parametrize("precision", ["int8", "int16"])
@pytest.mark.parametrize("kind", KINDS_AND_HEADS)
def test_stored_integers_make_the_same_weights(kind: str, precision: str, tmp_path: Path) -> None:
    model = random_transformer(150, **KINDS_AND_HEADS[kind])
    settings, arrays = model.settings, model.arrays()
    write_tensors(quantized_arrays(settings, arrays, precision), tmp_path / "weights")
    stored = load_file(tmp_path / "weights")
    assert (stored_precision(stored), stored_precision(arrays)) == (precision, "float32")
    loaded, expected = (CompiledWeights(settings, one, precision) for one in (stored, arrays))
    for one, other in zip(packed(loaded), packed(expected), strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    assert loaded.is_finite
    assert quantized_arrays(settings, stored, precision).keys() == stored.keys()
    smaller = [name for name, array in stored.items() if array.dtype != np.float32]
    assert {name for name, array in arrays.items() if array.ndim == 2} - set(smaller) == {
        name for name in arrays if "embedding" in name
    }


@pytest.mark.parametrize("kind", KINDS_AND_HEADS)
def test_int8_embeddings_are_read_as_the_rounded_embeddings(kind: str) -> None:
    model = random_transformer(150, **KINDS_AND_HEADS[kind])
    settings, arrays = model.settings, model.arrays()
    stored = quantized_arrays(settings, arrays, "int8", embeddings=True)
    embeddings = {name for name in arrays if name.endswith("embedding.weight")}
    assert all(stored[name].dtype == np.int8 for name in embeddings)
    rounded = arrays | {name: array for name, array in float32_arrays(settings, stored).items() if name in embeddings}
    loaded, expected = (CompiledWeights(settings, one, "int8") for one in (stored, rounded))
    for one, other in zip(packed(loaded), packed(expected), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


@pytest.mark.parametrize("kind", KINDS_AND_HEADS)
def test_restored_weights_are_within_half_a_step(kind: str) -> None:
    model = random_transformer(150, **KINDS_AND_HEADS[kind])
    arrays = model.arrays()
    restored = float32_arrays(model.settings, quantized_arrays(model.settings, arrays, "int8", embeddings=True))
    assert restored.keys() == arrays.keys()
    for name, array in arrays.items():
        assert restored[name].dtype == np.float32
        step = np.abs(array).max(-1, keepdims=True) / 127 if array.ndim == 2 and "positions" not in name else 0
        assert (np.abs(restored[name] - array) <= 0.501 * step).all(), name


def test_integers_times_scale_are_the_weights_with_their_factors() -> None:
    model = random_transformer(150, tie="none")
    arrays = model.arrays()
    for name in ("encoder.layers.1.self_attn.in_", "decoder.layers.0.feed_forward.outer.", "projection."):
        exact, product = (make_product(model.settings, arrays, name, one) for one in ("float32", "int8"))
        off = np.abs(product.weight * product.scale[:, None] - exact.weight)
        assert (off <= 0.501 * product.scale[:, None]).all()
        assert np.abs(product.weight).max(1).min() == 127


def test_weights_that_are_not_finite_are_noticed_after_storing() -> None:
    model = random_transformer(20)
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.inner.weight[3, 4] = float("inf")
    with np.errstate(invalid="ignore"):
        stored = quantized_arrays(model.settings, model.arrays(), "int8")
    assert not CompiledWeights(model.settings, stored, "int8").is_finite


@pytest.mark.parametrize("precision", ["float32", "int16"])
def test_another_precision_than_the_stored_one_is_refused(precision: str) -> None:
    model = random_transformer(20)
    stored = quantized_arrays(model.settings, model.arrays(), "int8")
    error = (
        "^the model's weights are stored in int8, so `inference.precision` must be int8, but is "
        rf"{precision}\. Use int8, or the model that they were made from\.$"
    )
    with pytest.raises(ModelError, match=error):
        CompiledWeights(model.settings, stored, precision)
    with pytest.raises(ModelError, match=error):
        quantized_arrays(model.settings, stored, precision)


@pytest.mark.parametrize("largest", [127, 2896])
def test_integers_times_scales_equal_the_weights_up_to_rounding(largest: int) -> None:
    weight = np.random.default_rng(1).normal(size=(40, 90)).astype(np.float32)
    weight[3] = 0.0
    integers, scale = quantize_rows(weight, largest)
    assert np.array_equal(integers, np.trunc(integers))
    assert (np.abs(np.delete(integers, 3, axis=0)).max(1) == largest).all()
    assert (np.abs(integers * scale[:, None] - weight) <= 0.501 * scale[:, None]).all()
    assert not integers[3].any()
