"""The number of parameters: counted in the model, computed by formula, and published."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import PRESETS, ModelSettings
from dragoman.model.shapes import expected_parameters, parameter_rows
from dragoman.model.transformer import Transformer

TOY = ModelSettings(
    preset="custom", d_model=8, d_ff=16, num_heads=8, num_encoder_layers=6, num_decoder_layers=6, tie="none"
)


def test_toy_model_has_9206_parameters() -> None:
    assert Transformer(TOY, 6, 6).parameter_table().total == 9206
    assert expected_parameters(TOY, 6, 6) == 9206


def test_presets_have_the_published_sizes() -> None:
    # Wu et al. 2021, Transformer-Tiny on Multi30k: 2.6M parameters, tied, 10k vocabulary, no bias at the projection.
    tiny = replace(PRESETS["tiny"], projection_bias=False, norm_first=True)
    assert expected_parameters(tiny, 10000, 10000) == 2_605_568
    # The paper's table 3: 65M and 213M parameters with a joint vocabulary of about 37,000.
    assert expected_parameters(PRESETS["base"], 37000, 37000) / 1e6 == pytest.approx(65, rel=0.05)
    assert expected_parameters(PRESETS["big"], 37000, 37000) / 1e6 == pytest.approx(213, rel=0.02)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        ModelSettings,
        preset=st.just("custom"),
        d_model=st.sampled_from([4, 8, 24]),
        d_ff=st.integers(1, 30),
        num_heads=st.sampled_from([1, 2, 4]),
        num_encoder_layers=st.integers(1, 3),
        num_decoder_layers=st.integers(1, 3),
        norm_first=st.booleans(),
        positions=st.sampled_from(["sinusoidal", "learned"]),
        max_positions=st.integers(2, 9),
        tie=st.sampled_from(["all", "decoder", "none"]),
        attention_bias=st.booleans(),
        projection_bias=st.booleans(),
    ),
    st.integers(5, 20),
    st.integers(5, 20),
)
def test_formula_equals_count_for_random_settings(shape: ModelSettings, src_size: int, tgt_size: int) -> None:
    src_size = tgt_size if shape.tie == "all" else src_size
    rows = parameter_rows(shape, src_size, tgt_size)
    assert rows == Transformer(shape, src_size, tgt_size).parameter_table()
    assert sum(row.count for row in rows) == expected_parameters(shape, src_size, tgt_size)
    assert all(row.count == _product(row.shape) for row in rows)


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
