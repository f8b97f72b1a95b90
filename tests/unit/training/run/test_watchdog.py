"""The watchdog names each fault once, by its effect on losses and norms, and is silent about good runs."""

import json
import math
from dataclasses import asdict

import pytest

from dragoman.training.run.watchdog import ValidationLosses, Verdict, WatchdogState

GUESSING = 6.0
GOOD = [ValidationLosses(100 * n, 5.0 / n, 5.0 / n + 0.3 * n, 5.0 / n, 0.9) for n in range(1, 9)]
FAULTS = {
    "ignores the source": [ValidationLosses(100 * n, 3.0 - 0.01 * n, 3.0, 2.9, 0.9) for n in range(1, 9)],
    "same output": [ValidationLosses(100 * n, 3.0, 4.0, 2.9, 0.01) for n in range(1, 9)],
    "learning rate too high": [ValidationLosses(100 * n, 6.5, 7.0, 5.9, 0.9) for n in range(1, 9)],
    "nothing learnt": [ValidationLosses(100 * n, 6.6, 6.6, 6.6, 0.9) for n in range(1, 9)],
    "over-fitting": [ValidationLosses(100 * n, 2.0 + 0.2 * abs(n - 3), 6.0, 2.0 / n, 0.9) for n in range(1, 9)],
}


def _findings(measured: list[ValidationLosses], warmup: int = 100) -> list[tuple[int, str]]:
    state = WatchdogState()
    return [
        (each.step, finding.name) for each in measured for finding in state.judge_validation(each, warmup, GUESSING)
    ]


def test_a_good_run_has_no_findings() -> None:
    assert _findings(GOOD) == []


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_once_and_alone(name: str) -> None:
    assert [found for _, found in _findings(FAULTS[name])] == [name]
    assert _findings(FAULTS[name][:2]) == []
    assert _findings(FAULTS[name], warmup=10_000) == []


def test_a_rising_training_loss_means_that_the_rate_is_too_high() -> None:
    rising = [
        ValidationLosses(100 * n, 3.0, 5.0, loss, 0.9) for n, loss in enumerate((3.0, 2.0, 2.7, 2.8, 2.9), start=1)
    ]
    assert _findings(rising) == [(500, "learning rate too high")]


def test_a_rate_too_high_is_the_only_finding_if_nothing_is_learnt() -> None:
    assert _findings([ValidationLosses(100 * n, 6.5, 6.5, 5.9, 0.9) for n in range(1, 9)]) == [
        (300, "learning rate too high")
    ]


def test_a_young_run_that_still_learns_has_no_findings() -> None:
    """Label smoothing and dropout keep the training loss above the loss of guessing for a while."""
    young = (6.7, 5.9, 5.5, 5.4, 5.3, 5.2, 5.1, 5.0)
    assert (
        _findings([ValidationLosses(10 * n, dev, dev + 0.5, 6.4 - 0.05 * n, 0.9) for n, dev in enumerate(young)], 10)
        == []
    )


def test_missing_losses_by_source_are_not_a_fault() -> None:
    assert _findings([ValidationLosses(100 * n, 3.0 - 0.01 * n, None, 2.9, 0.9) for n in range(1, 9)]) == []


def test_each_fault_is_found_in_its_own_loss() -> None:
    """Sources are exchanged among the shortest pairs only, and their loss may differ from the loss of all pairs."""
    steady = [ValidationLosses(100 * n, 2.0, 6.0, 2.0 / n, 0.9, 1.0 + 0.2 * n) for n in range(1, 9)]
    assert _findings(steady) == []
    assert _findings([ValidationLosses(100 * n, 3.0 - 0.01 * n, 2.5, 2.9, 0.9, 2.5) for n in range(1, 9)]) == [
        (300, "ignores the source")
    ]


def test_overfitting_names_the_step_where_it_started() -> None:
    state = WatchdogState()
    found = [finding for each in FAULTS["over-fitting"] for finding in state.judge_validation(each, 100, GUESSING)]
    assert "since step 300" in found[0].text


def test_steps_without_a_finite_loss_are_skipped_and_then_the_run_rolls_back_once() -> None:
    state = WatchdogState()
    for value in (math.nan, math.inf):
        verdict, finding = state.judge_step(1, value, 1.0)
        assert (verdict, finding.name) == (Verdict.SKIP, "not finite")
    assert state.judge_step(2, 1.0, math.nan)[0] is Verdict.SKIP
    assert state.judge_step(3, 1.0, 1.0) == (Verdict.APPLY, None)
    verdicts = [state.judge_step(step, math.nan, 1.0)[0] for step in range(4, 9)]
    assert verdicts == [Verdict.SKIP] * 4 + [Verdict.GO_BACK]
    state = state.with_half_rate()
    assert (state.rate_factor, state.not_finite) == (0.5, 8)
    assert [state.judge_step(step, math.nan, 1.0)[0] for step in range(5)][-1] is Verdict.STOP


def test_a_gradient_spike_differs_from_a_growing_gradient() -> None:
    state = WatchdogState()
    growing = [state.judge_step(step, 1.0, 1.03**step)[0] for step in range(200)]
    assert set(growing) == {Verdict.APPLY}
    verdict, finding = state.judge_step(200, 1.0, 1e9)
    assert (verdict, finding.name, state.spikes) == (Verdict.SKIP, "gradient spike", 1)
    assert state.judge_step(201, 1.0, 1.03**200)[0] is Verdict.APPLY


def test_the_state_of_the_watchdog_is_read_back_exactly_from_json() -> None:
    state = WatchdogState()
    for step in range(30):
        state.judge_step(step, 1 / (step + 3), 1 / (step + 7))
    for each in GOOD:
        state.judge_validation(each, 100, GUESSING)
    assert WatchdogState.from_dict(json.loads(json.dumps(asdict(state)))) == state
