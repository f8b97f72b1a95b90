"""The decay at the end of a run: when it starts, its line, and where it ends."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.config import TrainSettings
from dragoman.evaluation.learning_curve import forecast_bleu
from dragoman.evaluation.verdict import is_improving
from dragoman.training.decay import (
    bleu_at_end,
    decay_factor,
    forecast_end,
    progress_of,
    share_after_patience,
    start_decay,
)
from dragoman.training.run.run_folder import Decay, RunFolder, TrainState, ValidationRecord
from dragoman.training.trainer import fit
from tests.soak.runs import events_of, make_session, override_train, phrasebook_texts

SETTINGS = TrainSettings(max_steps=100, decay_share=0.4, patience=0)


def factors(state: TrainState, settings: TrainSettings, steps: int = 100) -> list[float]:
    """The factor of each step of a run."""
    found = []
    for step in range(1, steps + 1):
        state.step = step
        found.append(decay_factor(state))
        start_decay(state, settings, progress_of(state, settings, 10), has_lost_patience=False)
    return found


def test_the_rate_falls_linearly_over_the_last_share_of_the_steps() -> None:
    found = factors(TrainState(), SETTINGS)
    assert found[:60] == [1.0] * 60
    assert found[60:] == pytest.approx([(40 - number) / 41 + 0.0 for number in range(40)], abs=1 / 41)
    differences = [before - after for before, after in pairwise(found[60:])]
    assert differences == pytest.approx([1 / 41] * 39)
    assert found[-1] == pytest.approx(1 / 41)  # the last step still learns


@pytest.mark.parametrize(
    ("settings", "progress"),
    [
        (replace(SETTINGS, max_steps=0), 0.0),
        (SETTINGS, 0.5),
        (replace(SETTINGS, max_epochs=8), 5.2 / 8),
        (replace(SETTINGS, max_minutes=2), 0.75),
        (replace(SETTINGS, max_minutes=20), 0.5),
    ],
)
def test_progress_is_that_of_the_nearest_limit(settings: TrainSettings, progress: float) -> None:
    state = TrainState(step=50, epoch=5, step_in_epoch=2, seconds=90)
    assert progress_of(state, settings, 10) == pytest.approx(progress)


def test_a_time_limit_is_met_when_the_machine_becomes_slower() -> None:
    settings = TrainSettings(max_minutes=10, decay_share=0.5)
    state = TrainState()
    rates, seconds = [], 1.0
    while state.seconds < 600:
        state.step += 1
        rates.append(decay_factor(state))
        state.seconds += seconds if state.step < 400 else 3 * seconds
        progress = progress_of(state, settings, 10**9)
        start_decay(state, settings, progress, has_lost_patience=False)
        if state.step % 20 == 0:
            forecast_end(state, progress)
    assert 460 < len(rates) < 470
    assert rates[:300] == [1.0] * 300
    assert all(before >= after for before, after in pairwise(rates))
    assert rates[-1] < 0.1


def test_lost_patience_starts_a_decay_of_at_most_a_fifth() -> None:
    state, settings = TrainState(step=300), replace(SETTINGS, max_steps=0, patience=3)
    assert start_decay(state, settings, 0.0, has_lost_patience=True)
    assert state.decay is not None
    assert state.decay.by_patience
    assert state.decay.end == 375
    forecast_end(state, 0.0)
    assert state.decay.end == 375
    assert share_after_patience(replace(settings, decay_share=0.1)) == 0.1
    again = TrainState.from_json(state.to_json())
    assert again == state


def test_scores_that_rise_in_the_decay_do_not_count_as_improvement() -> None:
    scores = [20.0, 25.0, 25.0, 25.0, 27.0, 28.0]
    validations = [ValidationRecord(100 * number, score) for number, score in enumerate(scores, 1)]
    state = TrainState(step=600, validations=validations)
    assert state.steady_scores == scores
    assert is_improving(state.steady_scores)
    state.decay = Decay(400, 600, 1.0, 0.1, 600)
    assert state.steady_scores == scores[:4]
    assert not is_improving(state.steady_scores)


VALIDATED = [ValidationRecord(step, 0.0, bleu) for step, bleu in ((100, 0.4), (200, 9.0), (300, 18.0), (400, 23.0))]
FORECAST = replace(SETTINGS, max_steps=800, warmup_steps=100)


def forecast_fields(end: float) -> dict[str, float]:
    """The forecast from the last three of `VALIDATED`, if a step has 4,000 tokens and the run ends after step `end`."""
    found = forecast_bleu([(0.8e6, 9.0), (1.2e6, 18.0), (1.6e6, 23.0)], 4000 * end)
    return {"bleu_at_end": found.median, "bleu_at_end_low": found.low, "bleu_at_end_high": found.high}


@pytest.mark.parametrize(
    ("progress", "decay", "end"),
    [
        (0.5, None, 800),
        (0.0, None, math.inf),
        (0.5, Decay(400, 400, 0.5, 1.0, 500, by_patience=True), 500),
        (0.5, Decay(400, 400, 0.5, 1.0, 790), 800),
    ],
)
def test_bleu_is_forecast_for_the_end_of_the_run(progress: float, decay: Decay | None, end: float) -> None:
    state = TrainState(step=400, tgt_tokens=1_600_000, validations=VALIDATED, decay=decay)
    assert bleu_at_end(state, FORECAST, progress) == forecast_fields(end)
    assert bleu_at_end(TrainState.from_json(state.to_json()), FORECAST, progress) == forecast_fields(end)


def test_bleu_is_forecast_only_where_its_curve_is_known() -> None:
    state = TrainState(step=400, tgt_tokens=1_600_000, validations=VALIDATED)
    assert bleu_at_end(state, FORECAST, 1.0) == {}
    assert bleu_at_end(state, replace(FORECAST, start_from="model"), 0.5) == {}
    assert bleu_at_end(state, replace(FORECAST, warmup_steps=300), 0.5) == {}
    assert bleu_at_end(replace(state, stages=[[0, 4]]), FORECAST, 0.5) == {}
    assert bleu_at_end(replace(state, validations=VALIDATED[:2]), FORECAST, 0.5) == {}


def test_lost_patience_keeps_within_the_limit() -> None:
    state, settings = TrainState(step=300), replace(SETTINGS, max_steps=400, decay_share=0.4)
    start_decay(state, settings, 300 / 350, has_lost_patience=True)
    assert state.decay is not None
    assert state.decay.end == 350


def test_a_run_without_a_better_score_ends_after_its_decay(tmp_path: Path) -> None:
    config = override_train(max_steps=0, patience=2, decay_share=0.5, learning_rate=1e-9)
    session = make_session(tmp_path, phrasebook_texts(), config)
    session.state.validations.append(ValidationRecord(1, 1e9))
    reason = fit(session)
    assert reason == "no better score in 2 validations"
    rates = [event["learning_rate"] for event in events_of(tmp_path, "train")]
    decay = session.state.decay
    assert decay is not None
    assert session.state.step == decay.end == decay.start / 0.8
    assert rates[-1] < rates[decay.start] / 10
    assert RunFolder(tmp_path).damage(decay.start) is None
