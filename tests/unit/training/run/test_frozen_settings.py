"""The frozen settings of a run: some may change later, and the others are refused by name."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import Config, DataSettings, dump_config
from dragoman.errors import CheckpointError, DataError
from dragoman.files import write_folder
from dragoman.training.run.frozen_settings import (
    check_frozen,
    check_recorded,
    check_resumable,
    freeze_config,
    frozen_config,
    shared_paths,
)


def begin(run: Path, config: Config) -> Path:
    """A run with its first checkpoint."""
    freeze_config(run, config)
    (run / "checkpoints" / "step_0000001").mkdir(parents=True)
    return run


def test_every_setting_may_change_before_the_first_checkpoint(tmp_path: Path) -> None:
    run, other = tmp_path / "run", replace(Config(), model=replace(Config().model, d_model=512))
    check_frozen(run, Config())
    freeze_config(run, Config())
    (run / "checkpoints" / ".writing-step_0000001").mkdir(parents=True)
    (run / ".writing-config.toml-17").write_text("")
    assert frozen_config(run) is None
    check_frozen(run, other)
    assert frozen_config(begin(run, other)) == other


def test_limits_may_change_and_the_model_may_not(tmp_path: Path) -> None:
    config = Config()
    run = begin(tmp_path / "run", config)
    assert frozen_config(run) == config
    check_frozen(run, config)
    longer = replace(
        config, train=replace(config.train, max_steps=500), inference=replace(config.inference, beam_size=2)
    )
    check_frozen(run, longer)
    other = replace(config, model=replace(config.model, d_model=512))
    with pytest.raises(CheckpointError, match=r"`model\.d_model` = 256, but now it is 512"):
        check_frozen(run, other)
    assert frozen_config(run) == config, "checking writes nothing"


@pytest.mark.parametrize("name", ["thesis.txt", "manifest.json"])
def test_a_folder_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    freeze_config(tmp_path, Config())
    with pytest.raises(CheckpointError, match=f"holds {name}, and no run"):
        check_frozen(tmp_path, Config())


def test_the_remains_of_a_finished_run_are_a_run(tmp_path: Path) -> None:
    freeze_config(tmp_path, Config())
    (tmp_path / "averaged").mkdir()
    assert frozen_config(tmp_path) == Config()


@pytest.mark.parametrize("has_started", [True, False])
def test_an_unreadable_configuration_is_refused_by_name(tmp_path: Path, has_started: bool) -> None:
    if has_started:
        begin(tmp_path, Config())
    (tmp_path / "config.toml").write_text("[train\n")
    with pytest.raises(CheckpointError, match=r"config\.toml cannot be read"):
        check_frozen(tmp_path, Config())


def test_the_limit_of_a_schedule_that_ends_is_frozen(tmp_path: Path) -> None:
    config = Config()
    config = replace(config, train=replace(config.train, schedule="cosine", max_steps=9000))
    run = begin(tmp_path / "run", config)
    with pytest.raises(CheckpointError, match=r"`train\.max_steps` = 9000, but now it is 9500"):
        check_frozen(run, replace(config, train=replace(config.train, max_steps=9500)))


def checkpoint(run: Path, step: int, config: Config) -> Path:
    """Write the configuration of a checkpoint with the manifest that protects it."""
    folder = run / "checkpoints" / f"step_{step:07d}"
    with write_folder(folder, {}) as partial:
        (partial / "config.toml").write_text(dump_config(config))
    return folder


def test_an_edited_configuration_is_refused_with_the_original_value(tmp_path: Path) -> None:
    config = Config()
    freeze_config(tmp_path, config)
    checkpoint(tmp_path, 1, config)
    damaged = checkpoint(tmp_path, 2, config) / "config.toml"
    damaged.write_text(damaged.read_text().replace("learning_rate = 0.002", "learning_rate = 0.2"))
    path = tmp_path / "config.toml"
    edited = replace(config, train=replace(config.train, learning_rate=0.02, max_steps=70))
    path.write_text(dump_config(edited))
    for check in (lambda: check_frozen(tmp_path, edited), lambda: check_resumable(tmp_path)):
        with pytest.raises(CheckpointError, match=r"was edited: `train\.learning_rate` is 0\.02 there, .* with 0\.002"):
            check()
    free = replace(config, train=replace(config.train, max_steps=70), data=replace(config.data, train="/elsewhere"))
    path.write_text(dump_config(free))
    check_frozen(tmp_path, free)


def test_a_run_with_teachers_does_not_continue_without_them(tmp_path: Path) -> None:
    """Not even if its configuration was edited: the checkpoint knows."""
    freeze_config(tmp_path, Config())
    folder = checkpoint(tmp_path, 1, Config())
    shutil.rmtree(folder)
    with write_folder(folder, {}) as partial:
        taught = dump_config(Config()).replace("[train]\n", '[train]\nteachers = "one,two"\n')
        (partial / "config.toml").write_text(taught)
    for check in (lambda: check_frozen(tmp_path, Config()), lambda: check_resumable(tmp_path)):
        with pytest.raises(CheckpointError, match=r'is "one,two", but .* was removed\. A run with it cannot continue'):
            check()


def test_recorded_paths_of_corpora_are_absolute_and_paths_of_models_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEXTS", str(tmp_path / "texts"))
    run = tmp_path / "run"
    config = Config(data=DataSettings(train_src="$TEXTS/a.en", train_tgt="a.de", dev="dev.tsv"))
    freeze_config(run, config)
    checkpoint(run, 1, config)
    recorded = frozen_config(run)
    assert recorded is not None
    assert recorded.data.train_src == str(tmp_path / "texts" / "a.en")
    assert recorded.data.train_tgt == str(tmp_path / "a.de")
    assert recorded.data.dev_src == ""
    assert shared_paths(run, recorded) == config
    moved = replace(recorded, data=replace(recorded.data, dev="other.tsv"))
    assert shared_paths(run, moved).data == replace(config.data, dev="other.tsv")
    check_frozen(run, config)  # the same path in another form


@pytest.mark.parametrize(
    ("name", "flag"),
    [("train", "--data FILE"), ("train_tgt", "--src FILE --tgt FILE"), ("dev_src", "--data.dev-src FILE")],
)
def test_a_missing_corpus_is_named_with_the_flag_that_replaces_it(tmp_path: Path, name: str, flag: str) -> None:
    config = Config(data=DataSettings(**{name: str(tmp_path / "gone")}))
    with pytest.raises(DataError, match=rf"gone, which .*config\.toml records as `data\.{name}`, does not.*{flag}"):
        check_recorded(tmp_path, config)
    check_recorded(tmp_path, config, given={f"data.{name}"})
