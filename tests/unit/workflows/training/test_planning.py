"""The arithmetic of forecasts, against values computed by hand."""

import math
from dataclasses import replace

import pytest

from dragoman.config import PRESETS, Config, TrainSettings, ValidateSettings
from dragoman.evaluation.learning_curve import TOKENS_TO_90_PERCENT
from dragoman.workflows.training.planning import Measurement, forecast_of

MEASURED = Measurement(
    prepare_seconds=100,
    step_seconds=2.0,
    steps_measured=20,
    validation_seconds=30,
    save_seconds=10,
    scoring_seconds=60,
    steps_per_epoch=50,
    parameters=1000,
    peak_bytes=1,
    checkpoint_bytes=12_000,
    data_bytes=500,
)
CONFIG = Config(train=TrainSettings(max_steps=1000, patience=0, average_last=5, keep_checkpoints=5))


def test_the_forecast_adds_steps_validations_checkpoints_preparation_and_scoring() -> None:
    found = forecast_of(CONFIG, MEASURED, usual_epochs=10)
    # 1,000 steps of 2 s, 20 validations with checkpoints of 40 s, 100 s to prepare, 40 s to average, 60 s to score.
    assert found.hours * 3600 == pytest.approx(1000 * 2 + 20 * 40 + 100 + 40 + 60)
    assert (found.steps, found.epochs, found.validations, found.ends_by) == (1000, 20, 20, "train.max_steps")
    assert found.hours_at_most == found.hours
    assert found.disk_bytes == 6 * 12_000 + 4 * 1000 + 500


def test_checkpoints_and_validations_at_fixed_steps_are_counted() -> None:
    train = replace(CONFIG.train, checkpoint_every_steps=100, average_last=0)
    config = replace(CONFIG, train=train, validate=ValidateSettings(every_epochs=0, every_steps=200))
    found = forecast_of(config, MEASURED, usual_epochs=10)
    assert found.hours * 3600 == pytest.approx(1000 * 2 + 5 * 40 + 10 * 10 + 160)


def test_the_nearest_limit_or_patience_ends_the_run() -> None:
    minutes = replace(CONFIG, train=replace(CONFIG.train, max_minutes=14, average_last=0))
    found = forecast_of(minutes, MEASURED, usual_epochs=10)
    assert found.ends_by == "train.max_minutes"
    assert found.hours * 3600 == pytest.approx(14 * 60 + 160, rel=0.01)
    patience = replace(CONFIG, train=TrainSettings(patience=10, max_epochs=40, average_last=0))
    found = forecast_of(patience, MEASURED, usual_epochs=10)
    assert (found.ends_by, found.epochs) == ("train.patience", 10)
    assert found.hours_at_most * 3600 == pytest.approx(40 * 140 + 160)
    endless = replace(patience, train=replace(patience.train, max_epochs=0))
    falling = replace(patience, train=replace(patience.train, decay_share=0.5))
    assert forecast_of(falling, MEASURED, usual_epochs=10).epochs == 10 / 0.8  # a fifth of the run follows
    assert math.isinf(forecast_of(endless, MEASURED, usual_epochs=10).hours_at_most)


def test_minutes_to_90_percent_are_forecast_for_new_models_of_the_measured_size() -> None:
    tiny = replace(CONFIG, model=PRESETS["tiny"])
    minutes = forecast_of(tiny, MEASURED, usual_epochs=10).minutes_to_90_percent_bleu
    assert minutes == pytest.approx([tokens / 4096 * 2.8 / 60 for tokens in TOKENS_TO_90_PERCENT])  # 0.8 s to validate
    tuned = replace(tiny, train=replace(tiny.train, start_from="model"))
    for config in (tuned, replace(CONFIG, model=PRESETS["base"])):
        assert forecast_of(config, MEASURED, usual_epochs=10).minutes_to_90_percent_bleu == ()
