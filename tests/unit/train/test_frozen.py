"""A run's configuration is written once; what may change later may, the rest is refused by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import Config
from dragoman.errors import CheckpointError
from dragoman.train.frozen import freeze_config, frozen_config


def begin(run: Path) -> None:
    """The first checkpoint."""
    (run / "checkpoints" / "step_0000001").mkdir(parents=True)


def test_before_the_first_checkpoint_everything_may_change(tmp_path: Path) -> None:
    assert freeze_config(tmp_path / "run", Config())
    assert frozen_config(tmp_path / "run") is None
    other = replace(Config(), model=replace(Config().model, d_model=512))
    assert freeze_config(tmp_path / "run", other)
    begin(tmp_path / "run")
    assert frozen_config(tmp_path / "run") == other
    assert not freeze_config(tmp_path / "run", other), "nothing is new"


def test_limits_may_change_and_the_model_may_not(tmp_path: Path) -> None:
    config = Config()
    freeze_config(tmp_path / "run", config)
    begin(tmp_path / "run")
    assert frozen_config(tmp_path / "run") == config
    longer = replace(
        config, train=replace(config.train, max_steps=500), inference=replace(config.inference, beam_size=2)
    )
    freeze_config(tmp_path / "run", longer)
    assert frozen_config(tmp_path / "run") == longer
    other = replace(config, model=replace(config.model, d_model=512))
    with pytest.raises(CheckpointError, match=r"`model\.d_model` = 256, which is 512 now"):
        freeze_config(tmp_path / "run", other)
    assert frozen_config(tmp_path / "run") == longer


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="is not empty"):
        freeze_config(tmp_path, Config())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[train\n")
    begin(tmp_path)
    with pytest.raises(CheckpointError, match=r"config\.toml cannot be read"):
        freeze_config(tmp_path, Config())


def test_the_limit_is_part_of_a_schedule_that_ends_there(tmp_path: Path) -> None:
    config = Config()
    config = replace(config, train=replace(config.train, schedule="cosine", max_steps=9000))
    freeze_config(tmp_path / "run", config)
    begin(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"`train\.max_steps` = 9000, which is 9500 now"):
        freeze_config(tmp_path / "run", replace(config, train=replace(config.train, max_steps=9500)))
