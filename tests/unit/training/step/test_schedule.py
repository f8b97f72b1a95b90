"""Learning rate schedules, against values computed from equation 3 of the paper."""

from dataclasses import replace

import pytest

from dragoman.config import TrainSettings
from dragoman.training.step.optimizer import learning_rate

BASE = TrainSettings(warmup_steps=4000, learning_rate=1.0, schedule="noam")


@pytest.mark.parametrize("step", [1, 100, 4000, 4001, 100_000])
def test_noam_is_equation_3(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, BASE, 512) == pytest.approx(expected, rel=1e-12)


def test_inverse_sqrt_peaks_at_the_end_of_the_warm_up() -> None:
    settings = replace(BASE, schedule="inverse_sqrt", learning_rate=0.005, warmup_steps=2000)
    assert learning_rate(1000, settings, 128) == pytest.approx(0.0025)
    assert learning_rate(2000, settings, 128) == pytest.approx(0.005)
    assert learning_rate(8000, settings, 128) == pytest.approx(0.0025)


def test_constant_schedule_and_no_warm_up() -> None:
    settings = replace(BASE, schedule="constant", learning_rate=0.001, warmup_steps=0)
    assert learning_rate(1, settings, 128) == learning_rate(10**6, settings, 128) == 0.001
    assert learning_rate(1, replace(settings, schedule="inverse_sqrt"), 128) == 0.001


@pytest.mark.parametrize(("schedule", "halfway"), [("linear", 0.0005), ("cosine", 0.0005)])
def test_linear_and_cosine_fall_from_the_peak_to_zero_after_the_last_step(schedule: str, halfway: float) -> None:
    settings = replace(BASE, schedule=schedule, learning_rate=0.001, warmup_steps=100, max_steps=999)
    rates = [learning_rate(step, settings, 128) for step in (50, 100, 550, 999, 1000, 5000)]
    assert rates[:3] == pytest.approx([0.0005, 0.001, halfway])
    assert 0 < rates[3] < 0.001 / 500
    assert rates[4:] == pytest.approx([0.0, 0.0])
    falling = [learning_rate(step, settings, 128) for step in range(100, 1001)]
    assert falling == sorted(falling, reverse=True)
