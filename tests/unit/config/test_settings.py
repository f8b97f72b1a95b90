"""Settings created in Python."""

import dataclasses

import pytest

from dragoman.config import PRESETS, ModelSettings


@pytest.mark.parametrize(
    ("preset", "sizes"),
    [  # "Attention Is All You Need", table 3, for base and big
        ("tiny", (128, 256, 4, 4)),
        ("small", (256, 1024, 4, 4)),
        ("base", (512, 2048, 8, 6)),
        ("big", (1024, 4096, 16, 6)),
    ],
)
def test_a_preset_sets_the_sizes_that_are_not_given(preset: str, sizes: tuple[int, ...]) -> None:
    settings = ModelSettings(preset=preset)  # type: ignore[arg-type]
    assert (settings.d_model, settings.d_ff, settings.num_heads, settings.num_decoder_layers) == sizes
    assert settings == PRESETS[preset]
    wider = ModelSettings(preset=preset, d_model=48)  # type: ignore[arg-type]
    assert wider == dataclasses.replace(settings, d_model=48)


def test_without_a_preset_the_sizes_are_the_defaults() -> None:
    assert ModelSettings() == PRESETS["small"]
    assert dataclasses.replace(ModelSettings(preset="custom"), preset="small") == ModelSettings()
