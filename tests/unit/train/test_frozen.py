"""A run's configuration is written once; what may change later may, the rest is refused by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import Config
from dragoman.errors import CheckpointError
from dragoman.train.frozen import check_frozen, freeze_config, frozen_config


def begin(run: Path, config: Config) -> Path:
    """A run with its first checkpoint."""
    freeze_config(run, config)
    (run / "checkpoints" / "step_0000001").mkdir(parents=True)
    return run


def test_before_the_first_checkpoint_everything_may_change(tmp_path: Path) -> None:
    run, other = tmp_path / "run", replace(Config(), model=replace(Config().model, d_model=512))
    assert not check_frozen(run, Config())
    freeze_config(run, Config())
    (run / "checkpoints" / ".writing-step_0000001").mkdir(parents=True)
    (run / ".writing-config.toml-17").write_text("")
    assert frozen_config(run) is None
    assert not check_frozen(run, other)
    assert frozen_config(begin(run, other)) == other


def test_limits_may_change_and_the_model_may_not(tmp_path: Path) -> None:
    config = Config()
    run = begin(tmp_path / "run", config)
    assert frozen_config(run) == config
    assert not check_frozen(run, config)
    longer = replace(
        config, train=replace(config.train, max_steps=500), inference=replace(config.inference, beam_size=2)
    )
    assert check_frozen(run, longer) == {"train.max_steps", "inference.beam_size"}
    other = replace(config, model=replace(config.model, d_model=512))
    with pytest.raises(CheckpointError, match=r"`model\.d_model` = 256, which is 512 now"):
        check_frozen(run, other)
    assert frozen_config(run) == config, "to check writes nothing"


@pytest.mark.parametrize("name", ["thesis.txt", "manifest.json"])
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    freeze_config(tmp_path, Config())
    with pytest.raises(CheckpointError, match=f"holds {name}, and no run"):
        check_frozen(tmp_path, Config())


def test_what_is_left_of_a_finished_run_is_one(tmp_path: Path) -> None:
    freeze_config(tmp_path, Config())
    (tmp_path / "averaged").mkdir()
    assert frozen_config(tmp_path) == Config()


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_configuration_that_is_not_ours_is_named(tmp_path: Path, has_begun: bool) -> None:
    if has_begun:
        begin(tmp_path, Config())
    (tmp_path / "config.toml").write_text("[train\n")
    with pytest.raises(CheckpointError, match=r"config\.toml cannot be read"):
        check_frozen(tmp_path, Config())


def test_the_limit_is_part_of_a_schedule_that_ends_there(tmp_path: Path) -> None:
    config = Config()
    config = replace(config, train=replace(config.train, schedule="cosine", max_steps=9000))
    run = begin(tmp_path / "run", config)
    with pytest.raises(CheckpointError, match=r"`train\.max_steps` = 9000, which is 9500 now"):
        check_frozen(run, replace(config, train=replace(config.train, max_steps=9500)))
