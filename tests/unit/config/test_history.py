"""Runs, models and files of earlier versions: renamed settings by both names, and removed settings."""

import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from dragoman.bundle.folder import read_settings
from dragoman.cli.arguments import ArgumentParser
from dragoman.config import SETTINGS, Config, config_from_dict, dump_config, load_config
from dragoman.config.loading import flag_of
from dragoman.config.names import REMOVED, RENAMED
from dragoman.errors import CheckpointError, ConfigError, SettingsWarning
from dragoman.training.run.frozen_settings import check_frozen, frozen_config

pytestmark = pytest.mark.filterwarnings("ignore::dragoman.errors.SettingsWarning")
OLD_TEXT = (Path(__file__).parents[2] / "data" / "config_with_old_names.toml").read_text(encoding="utf-8")
OTHER_VALUES = {
    "train.workers": 3,
    "data.old_share": 0.5,
    "inference.capitals": False,
    "inference.alpha": 1.5,
    **{f"data.old{side}": f"/corpus{side}.tsv" for side in ("", "_src", "_tgt", "_test", "_test_src", "_test_tgt")},
}


def old_text_with(key: str, value: object) -> str:
    table, name = key.split(".")
    content = tomllib.loads(OLD_TEXT)
    assert name in content[table]
    content[table][name] = value
    return tomli_w.dumps(content)


def value_of(config: Config, key: str) -> object:
    table, name = key.split(".")
    return getattr(getattr(config, table), name)


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_names_are_either_old_or_current() -> None:
    assert not (RENAMED.keys() | REMOVED.keys()) & SETTINGS.keys()
    assert set(RENAMED.values()) <= SETTINGS.keys()
    assert RENAMED.keys() == OTHER_VALUES.keys()


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_run_of_an_earlier_version_continues(tmp_path: Path, old: str, new: str) -> None:
    value = OTHER_VALUES[old]
    run = write(tmp_path / "run" / "config.toml", old_text_with(old, value)).parent
    (run / "checkpoints" / "step_0000001").mkdir(parents=True)
    config = frozen_config(run)
    assert config is not None
    assert value_of(config, new) == value
    check_frozen(run, config)
    if new.startswith("data.") and "test" not in new:
        with pytest.raises(CheckpointError, match=f"`{new}` = {value!r}, but now it is"):
            check_frozen(run, Config())
    else:
        check_frozen(run, Config())


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_model_of_an_earlier_version_is_read_with_one_note(tmp_path: Path, old: str, new: str) -> None:
    path = write(tmp_path / "model" / "config.toml", old_text_with(old, OTHER_VALUES[old]))
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("default", SettingsWarning)
        for _ in range(2):
            config = read_settings(path.parent)
    assert value_of(config, new) == OTHER_VALUES[old]
    assert len(notes) == 1
    assert str(notes[0].message).endswith(f", and 7 more; {path} still has the old names.")
    assert old not in dump_config(config)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_file_may_have_the_old_name_only(tmp_path: Path, old: str, new: str) -> None:
    table, name = old.split(".")
    given = {table: {name: OTHER_VALUES[old]}}
    path = write(tmp_path / "own.toml", tomli_w.dumps(given))
    with pytest.warns(SettingsWarning) as notes:
        assert value_of(config_from_dict(given, str(path)), new) == OTHER_VALUES[old]
    assert [str(note.message) for note in notes] == [f"`{old}` is now `{new}`; {path} still has the old name."]
    path = write(tmp_path / "both.toml", tomli_w.dumps({table: given[table] | {new.split(".")[1]: OTHER_VALUES[old]}}))
    with pytest.raises(ConfigError) as caught:
        load_config([path])
    assert str(caught.value) == f"`{old}` and `{new}` in {path} are one setting. Remove `{old}`, the old name."


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_flag_works_and_is_not_in_the_help(capsys: pytest.CaptureFixture[str], old: str, new: str) -> None:
    parser = ArgumentParser("train")
    parser.add_settings("data", "train", "inference")
    text = str(OTHER_VALUES[old]).lower()
    for flag in (flag_of(old), f"--{old}"):
        assert parser.parse([flag, text]).overrides() == {new: text}
    capsys.readouterr()
    with pytest.raises(SystemExit):
        parser.parse(["--help-all"])
    assert f"{flag_of(old)} " not in capsys.readouterr().out
    with pytest.raises(ConfigError) as caught:
        parser.parse([flag_of(old), text, flag_of(new), text]).overrides()
    assert str(caught.value) == f"`{flag_of(old)}` and `{flag_of(new)}` are one setting. Leave the old name out."


def test_old_flags_are_parsed_like_other_flags(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser("train")
    parser.add_settings("data", "train", "inference")
    assert parser.parse(["--inference.capitals"]).overrides() == {"inference.retry_all_caps": "true"}
    with pytest.raises(ConfigError, match="given twice"):
        parser.parse(["--data.old", "a.tsv", "--data.old", "b.tsv"])
    for near in ("--alpha", "--inference.length-penalty-alfa"):
        with pytest.raises(ConfigError, match=r"Did you mean `--inference\.length-penalty"):
            parser.parse([near, "1"])
    with pytest.raises(ConfigError, match=r"^`--train\.r-drop` was removed together with R-Drop\."):
        parser.parse(["--train.r_drop", "5"])
    with pytest.raises(ConfigError, match=r"`train\.alpha` in x is not a setting\. Did you mean `inference\.length_pe"):
        config_from_dict({"train": {"alpha": 1.0}}, "x")


@pytest.mark.parametrize("key", REMOVED)
def test_removed_setting_is_read_silently_at_its_neutral_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    table, name = key.split(".")
    content: dict[str, Any] = {table: {name: REMOVED[key].neutral}}
    path = write(tmp_path / "x.toml", tomli_w.dumps(content))
    assert load_config([path]) == config_from_dict(content, "m/config.toml") == Config()
    assert config_from_dict(content, "run/config.toml", keep_training=True) == Config()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("key", REMOVED)
def test_another_value_of_a_removed_setting_ends_a_run_but_not_a_model(tmp_path: Path, key: str) -> None:
    path = write(tmp_path / "run" / "config.toml", old_text_with(key, 5.0))
    assert read_settings(path.parent) == load_config([write(tmp_path / "old.toml", OLD_TEXT)])
    (path.parent / "checkpoints" / "step_0000001").mkdir(parents=True)
    said = f"`{key}` in {path} is 5, but {REMOVED[key].feature} was removed."
    with pytest.raises(ConfigError) as caught:
        load_config([path])
    assert str(caught.value) == f"{said} Remove the line.{REMOVED[key].instead}"
    with pytest.raises(CheckpointError) as refused:
        frozen_config(path.parent)
    assert f"{said} A run with it cannot continue." in str(refused.value)
    assert "Remove the line" not in str(refused.value)
