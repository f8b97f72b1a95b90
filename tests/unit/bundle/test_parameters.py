"""Names and shapes computed from settings, compared with those of the model."""

from itertools import product
from typing import Any

import pytest

from dragoman.config import ModelSettings
from dragoman.model.shapes import parameter_shapes
from dragoman.model.transformer import Transformer

KINDS = [
    {"norm_first": norm_first, "tie": tie, "positions": positions, "attention_bias": bias, "projection_bias": not bias}
    for norm_first, tie, positions, bias in product(
        (True, False), ("all", "decoder", "none"), ("sinusoidal", "learned"), (True, False)
    )
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: " ".join(map(str, kind.values())))
def test_shapes_are_those_of_the_model(kind: dict[str, Any]) -> None:
    settings = ModelSettings(
        d_model=8, d_ff=12, num_heads=2, num_encoder_layers=1, num_decoder_layers=2, max_positions=5, **kind
    )
    sizes = (7, 7) if settings.tie == "all" else (7, 9)
    model = Transformer(settings, *sizes)
    shapes = parameter_shapes(settings, *sizes)
    assert list(shapes.items()) == [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]


def test_one_tensor_cannot_embed_two_vocabularies() -> None:
    with pytest.raises(ValueError, match="vocabularies of 7 and 9"):
        parameter_shapes(ModelSettings(tie="all"), 7, 9)
