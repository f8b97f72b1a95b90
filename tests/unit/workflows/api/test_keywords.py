"""Settings as keywords become the text of flags, or one clear error."""

import ast
import re
from pathlib import Path

import pytest

import dragoman
from dragoman.config import SETTINGS, Config, ModelSettings, TrainSettings, read_config
from dragoman.config.loading import flag_of
from dragoman.errors import ConfigError
from dragoman.workflows.api.keywords import name_keywords, overrides_of_keywords


def test_names_values_and_tables_become_the_text_of_flags() -> None:
    settings = {
        "src": Path("train.en"),
        "tgt": "train.de",
        "max_minutes": 1.5,
        "train_seed": 2,
        "inference.seed": 3,
        "joint": False,
        "metric": "bleu",
        "model": {"d_model": 64},
        "patience": None,
    }
    assert overrides_of_keywords(settings) == {
        "data.train_src": "train.en",
        "data.train_tgt": "train.de",
        "train.max_minutes": "1.5",
        "train.seed": "2",
        "inference.seed": "3",
        "tokenizer.joint": "false",
        "validate.metric": "bleu",
        "model.d_model": "64",
    }


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_has_a_keyword_and_keeps_its_value(key: str) -> None:
    setting = SETTINGS[key]
    overrides = overrides_of_keywords({key.replace(".", "_"): setting.default})
    assert list(overrides) == [key]
    table, name = key.split(".")
    read = read_config([], overrides, Config()).config if setting.default != "" else Config()
    assert getattr(getattr(read, table), name) == setting.default


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"max_step": 3}, "`max_step` is not a setting. Did you mean `max_steps`?"),
        ({"lr": 3}, "`lr` is not a setting. Dragoman calls it `learning_rate`."),
        ({"qqqqqq": 3}, "`qqqqqq` is not a setting."),
        *(
            (
                {keyword: ["a", "b"]},
                f"`{keyword}` was removed together with learning from the predictions of teachers. Leave the keyword "
                "out. Train on what the teacher writes instead: `dragoman translate TEACHER < train.en > train.de`.",
            )
            for keyword in ("teachers", "train_teachers")
        ),
        ({"seed": 3}, "`seed` is the name of 2 settings. Write `train_seed` or `inference_seed`."),
        ({"max_steps": {1}}, "`max_steps` must be a number, a text, a path or a list of these, but is a set."),
        (
            {"max_steps": 1, "train_max_steps": 2},
            "`train_max_steps` and another keyword both set `train.max_steps`. Leave one out.",
        ),
        ({"train": {"max_step": 3}}, "`train.max_step` is not a setting. Did you mean `train_max_steps`?"),
    ],
)
def test_a_wrong_keyword_is_one_clear_error(settings: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        overrides_of_keywords(settings)
    assert str(refusal.value) == error


def test_only_the_requested_tables_are_known() -> None:
    assert overrides_of_keywords({"seed": 3}, ["inference"]) == {"inference.seed": "3"}
    with pytest.raises(ConfigError, match="`max_steps` is not a setting"):
        overrides_of_keywords({"max_steps": 3}, ["inference"])


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("Choose another `--out`, or remove it.", "Choose another `out`, or remove it."),
        ("`--src-lang` and `--tgt-lang` (`data.src_lang`)", "`src_lang` and `tgt_lang` (`data.src_lang`)"),
        ("Swap them: `--columns 2,1 --src-lang en`.", 'Swap them: `columns="2,1", src_lang="en"`.'),
        ("add `--data.check-languages false`", "add `check_languages=False`"),
        ("Set `--train.max-minutes 20`, or `--train.warmup-steps 7`", "Set `max_minutes=20`, or `warmup_steps=7`"),
        ("`--header`, or `--no-header`", '`header="yes"`, or `header="no"`'),
        ("with `--from` this run, `--data 'my file.tsv'`", 'with `start_from` this run, `data="my file.tsv"`'),
        ("Read it with `--encoding utf-16-le`", 'Read it with `encoding="utf-16-le"`'),
        ("`dragoman evaluate --train`; add `--no-line-check`", "`dragoman evaluate --train`; add `--no-line-check`"),
        ("my--file, --out and `a --out b` stay", "my--file, --out and `a --out b` stay"),
    ],
)
def test_flags_in_a_message_become_keywords(message: str, named: str) -> None:
    assert name_keywords(message) == named
    assert name_keywords(named) == named


@pytest.mark.parametrize("key", SETTINGS)
def test_the_keyword_of_a_flag_sets_the_same_setting(key: str) -> None:
    keyword, _, value = name_keywords(f"`{flag_of(key)} 7`").strip("`").partition("=")
    assert overrides_of_keywords({keyword: value}) == {key: "7"}


def test_errors_write_flags_in_backticks() -> None:
    """Elsewhere, `name_keywords` does not find them. The commands of other programs are left out."""
    package = Path(dragoman.__file__).parent
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in ("cli", "serving") or path.stem in ("cluster", "distributed"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc:
                texts = (each.value for each in ast.walk(node.exc) if isinstance(each, ast.Constant))
                message = "".join(text for text in texts if isinstance(text, str))
                assert not re.search(r"(?<![\w-])--[a-z]", re.sub(r"`[^`]*`", "", message)), (path, message)


def test_a_record_of_settings_sets_what_differs_from_its_defaults() -> None:
    train, model = TrainSettings(max_steps=3, schedule="cosine"), ModelSettings(preset="custom", d_model=16)
    found = overrides_of_keywords({"train": train, "model": model, "max_minutes": 1})
    assert found == {
        "train.max_steps": "3",
        "train.schedule": "cosine",
        "model.preset": "custom",
        "model.d_model": "16",
        "train.max_minutes": "1",
    }
