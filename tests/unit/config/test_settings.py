"""Settings created in Python."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman.config import PRESETS, SETTINGS, Config, ModelSettings, Setting, TrainSettings, config_from_dict
from dragoman.config.settings import TABLES
from dragoman.errors import ConfigError


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


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or its error as one text."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda: dragoman.TrainSettings(schedule="nom"),  # type: ignore[arg-type]
            '`train.schedule` must be one of noam, inverse_sqrt, constant, linear, cosine, but is "nom". Did you mean '
            "`noam`?",
        ),
        (
            lambda: dragoman.ModelSettings(tie="both"),  # type: ignore[arg-type]
            '`model.tie` must be one of all, decoder, none, but is "both".',
        ),
        (
            lambda: dragoman.ModelSettings(preset="huge"),  # type: ignore[arg-type]
            '`model.preset` must be one of tiny, small, base, big, custom, but is "huge".',
        ),
        (
            lambda: dragoman.ModelSettings(preset=["base"]),  # type: ignore[arg-type]
            "`model.preset` must be one of tiny, small, base, big, custom, but is a list.",
        ),
        (lambda: dragoman.ModelSettings(dropout=1.5), "`model.dropout` must be at most 0.95, but is 1.5."),
        (
            lambda: dragoman.TrainSettings(max_steps="100"),  # type: ignore[arg-type]
            '`train.max_steps` must be a whole number, but is "100".',
        ),
        (
            lambda: dragoman.ModelSettings(d_model=8.0),  # type: ignore[arg-type]
            "`model.d_model` must be a whole number, but is 8.0.",
        ),
        (lambda: dragoman.ModelSettings(num_heads=True), "`model.num_heads` must be a whole number, but is true."),
        (
            lambda: dragoman.InferenceSettings(sample=1),  # type: ignore[arg-type]
            "`inference.sample` must be true or false, but is 1.",
        ),
        (
            lambda: dragoman.TrainSettings(max_steps=10**400),
            "`train.max_steps` must be at most 9223372036854775807, but is a number of more than 50 digits.",
        ),
        (
            lambda: dragoman.TrainSettings(max_steps=np.zeros(2)),  # type: ignore[arg-type]
            "`train.max_steps` must be a whole number, but is [0. 0.].",
        ),
        (lambda: dragoman.TokenizerSettings(vocab_size=0), "`tokenizer.vocab_size` must be at least 8, but is 0."),
        (
            lambda: dataclasses.replace(dragoman.TrainSettings(), learning_rate=0.0),
            "`train.learning_rate` must be greater than 0, but is 0.",
        ),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_made(call: Callable[[], object], error: str) -> None:
    assert outcome(call) == f"ConfigError: {error}"


VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.none(),
    st.just([]),
    st.sampled_from(["base", "adam"]),
)


@given(setting=st.sampled_from(list(SETTINGS.values())), value=VALUES)
def test_python_and_toml_accept_the_same_values_and_refuse_others_with_the_same_words(
    setting: Setting, value: object
) -> None:
    of_table = type(getattr(Config(), setting.table))
    made = outcome(lambda: of_table(**{setting.name: value}))
    read = outcome(lambda: config_from_dict({setting.table: {setting.name: value}}, "my.toml"))
    if isinstance(read, Config):
        assert repr(made) == repr(getattr(read, setting.table))
    elif "must be a multiple of" not in str(read) and "must be even" not in str(read):  # rules between settings
        assert made == str(read).replace(" in my.toml", "")


def test_settings_accept_the_scalars_of_numpy_and_paths() -> None:
    settings = TrainSettings(
        learning_rate=np.float64(0.5),
        clip_norm=2,
        max_steps=np.int64(3),
        schedule=np.str_("noam"),  # type: ignore[arg-type]
    )
    assert settings == TrainSettings(learning_rate=0.5, clip_norm=2.0, max_steps=3, schedule="noam")
    assert dragoman.InferenceSettings(sample=np.bool_(True)).sample is True  # type: ignore[arg-type]
    assert {type(value) for value in dataclasses.astuple(settings)} == {int, float, str, bool}
    assert dragoman.DataSettings(train=Path("a") / "b.tsv").train == str(Path("a") / "b.tsv")  # type: ignore[arg-type]


@pytest.mark.parametrize("table", TABLES)
def test_checked_settings_are_ordinary_dataclasses(table: str) -> None:
    settings = getattr(Config(), table)
    for same in (copy.deepcopy(settings), pickle.loads(pickle.dumps(settings)), dataclasses.replace(settings)):
        assert same == settings
    names = [field.name for field in dataclasses.fields(settings)]
    assert list(inspect.signature(type(settings)).parameters) == names
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, names[0], "x")
    with pytest.raises(ConfigError, match=rf"^`nothing` is not a setting of \[{table}\]\."):
        dataclasses.replace(settings, nothing=1)
