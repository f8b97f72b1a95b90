"""Limits of a run, against values computed by hand."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import Config, TrainSettings, ValidateSettings
from dragoman.errors import ResourceError
from dragoman.training.limits import (
    TrainingPace,
    check_disk,
    kept_bytes,
    limit_notes,
    pace_note,
    validations_until,
)

TRAIN = TrainSettings(warmup_steps=1000, max_epochs=0)
EVERY_EPOCH = ValidateSettings()
PACE = TrainingPace(step=5, seconds=18.0, step_seconds=3.6, steps_in_epoch=50)


def test_the_nearest_limit_is_found_in_steps() -> None:
    steps, key = PACE.steps_until(replace(TRAIN, max_minutes=5))
    assert (steps, key) == (5 + 282 / 3.6, "train.max_minutes")
    assert PACE.steps_until(replace(TRAIN, max_minutes=5, max_steps=70)) == (70, "train.max_steps")
    assert PACE.steps_until(replace(TRAIN, max_epochs=1, max_steps=70)) == (50, "train.max_epochs")
    assert PACE.steps_until(TRAIN) == (math.inf, "")


@pytest.mark.parametrize("limit", [{"max_minutes": 5.0}, {"max_steps": 83}, {"max_epochs": 1}])
def test_a_limit_within_the_warmup_is_noted_with_values_that_fit(limit: dict[str, float]) -> None:
    train = replace(TRAIN, **limit)  # type: ignore[arg-type]
    (note,) = limit_notes(train, EVERY_EPOCH, PACE, validated=True)
    assert "within its warm-up of 1,000" in note
    flag, value = re.search(r"Set `--train\.([a-z-]+) (\d+)`", note).groups()  # type: ignore[union-attr]
    raised = replace(train, **{flag.replace("-", "_"): int(value)})
    assert 5000 <= PACE.steps_until(raised)[0] < 5600
    assert not limit_notes(raised, EVERY_EPOCH, PACE, validated=True)
    warmup = int(re.search(r"--train\.warmup-steps (\d+)", note)[1])  # type: ignore[index]
    assert not limit_notes(replace(train, warmup_steps=warmup), EVERY_EPOCH, PACE, validated=True)


def test_a_limit_before_the_first_validation_is_noted_with_values_that_fit() -> None:
    train = replace(TRAIN, warmup_steps=10, max_steps=80)
    rare = ValidateSettings(every_epochs=0, every_steps=400)
    (note,) = limit_notes(train, rare, PACE, validated=False)
    assert "before its first validation at step 400" in note
    assert "`--train.max-steps 2000`" in note
    assert "`--validate.every-steps 16`" in note
    assert not limit_notes(train, rare, PACE, validated=True)
    assert not limit_notes(train, EVERY_EPOCH, PACE, validated=False)
    assert not limit_notes(TRAIN, rare, PACE, validated=False), "no limit, no note"


def test_a_long_pause_of_the_log_is_announced_and_a_short_one_is_not() -> None:
    note = pace_note(TRAIN, PACE)
    assert note is not None
    assert note.startswith("A step takes 3.6 s; progress is logged every 50 steps (`train.log_every_steps`), next in ")
    assert "2 min 42 s" in note
    assert pace_note(TRAIN, replace(PACE, step=45)) is None
    assert pace_note(TRAIN, replace(PACE, step_seconds=0.3)) is None


def test_the_disk_needs_space_for_the_files_that_are_not_written_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_bytes(replace(TRAIN, average_best=2), 100, 1000, 10) == 8 * 1000 + 40
    assert kept_bytes(TRAIN, 1, 1000, 10) == 2 * 1000 + 40, "one validation, one more for a stop"
    config = Config(validate=ValidateSettings(every_epochs=1, every_steps=25))
    assert validations_until(config, 100, 50) == 6
    assert validations_until(config, math.inf, 50) > 100
    monkeypatch.setattr("dragoman.training.limits.free_space", lambda folder: 3000)
    check_disk(TRAIN, tmp_path, 5000, there=2000)
    with pytest.raises(ResourceError, match=r"3,000 bytes free.* need 3,001.*fewer `train\.keep_checkpoints` \(5 now"):
        check_disk(TRAIN, tmp_path, 5000, there=1999)
