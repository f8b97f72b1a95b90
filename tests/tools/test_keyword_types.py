"""The typed keywords of the Python API are those that it accepts."""

from typing import get_args, get_origin, get_type_hints

import pytest

from dragoman.config import SETTINGS
from dragoman.config.keyword_types import InferenceKeywords, TrainKeywords, TranslateKeywords
from dragoman.config.settings import TABLES
from dragoman.errors import ConfigError
from dragoman.workflows.api.keywords import overrides_of_keywords
from tools.keyword_types import TARGET, source

TRAIN, INFERENCE, TRANSLATE = map(get_type_hints, (TrainKeywords, InferenceKeywords, TranslateKeywords))


def test_the_file_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == source(), "run `python tools/keyword_types.py`"


def test_every_keyword_sets_a_setting_and_every_setting_has_its_keywords() -> None:
    keys = {
        name: next(iter(overrides_of_keywords({name: "x"}))) for name in set(TRAIN) - {*TABLES, "corpora"} | {"train"}
    }
    assert set(keys.values()) == set(SETTINGS)
    assert {key.replace(".", "_") for key in SETTINGS} <= set(keys)
    short = {key.partition(".")[2] for key in SETTINGS}
    for name in short - set(TRAIN):
        with pytest.raises(ConfigError, match=f"`{name}` is the name of 2 settings"):
            overrides_of_keywords({name: "x"})


def test_keywords_of_a_search_are_the_settings_of_inference() -> None:
    names = {key.partition(".")[2] for key in SETTINGS if key.startswith("inference.")}
    assert set(TRANSLATE) == names
    assert set(INFERENCE) == names | {f"inference_{name}" for name in names} | {"inference"}


def test_the_type_of_a_keyword_admits_the_default_and_the_choices() -> None:
    for setting in SETTINGS.values():
        hint = TRAIN[f"{setting.table}_{setting.name}"]
        if setting.choices:
            assert get_args(hint) == setting.choices
        else:
            assert setting.kind in (get_args(hint) if get_origin(hint) else (hint,)), setting.key
