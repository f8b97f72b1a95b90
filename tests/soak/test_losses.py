"""Losses that are not finite and exploding gradients are skipped, counted, and never in a checkpoint."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.bundle import Model
from dragoman.errors import DragomanError
from dragoman.training.trainer import fit
from tests.soak.conftest import Report
from tests.soak.runs import STEPS, KeptLog, is_whole, make_session, phrasebook_texts, scaled_gradients


@pytest.mark.parametrize(("fault", "factor"), [("NaN loss in a step", math.nan), ("gradient times 10^6", 1e6)])
def test_a_faulty_step_is_skipped(
    fault: str, factor: float, tmp_path: Path, scaled: Callable[[int], int], report: Report
) -> None:
    steps = set(random.Random(fault).sample(range(25, STEPS, 2), scaled(10)))
    session = make_session(tmp_path, phrasebook_texts())
    with scaled_gradients(session, steps, factor):
        fit(session)
    watchdog = session.state.watchdog
    skipped = watchdog.not_finite if math.isnan(factor) else watchdog.spikes
    assert all(bool(parameter.isfinite().all()) for parameter in session.transformer.parameters())
    for step in session.run.steps():
        Model.load(session.run.step_folder(step), "cpu")  # raises for weights that are not finite
    report(fault, len(steps), range(len(steps) - skipped), "skipped and counted; all checkpoints finite")


def test_five_faulty_steps_return_to_the_checkpoint(tmp_path: Path, report: Report) -> None:
    session = make_session(tmp_path, phrasebook_texts())
    with scaled_gradients(session, set(range(33, 38)), math.nan):
        fit(session)
    assert isinstance(session.log, KeptLog)
    assert any("goes back to step 30" in line for line in session.log.lines)
    assert (session.state.watchdog.rate_factor, session.state.step) == (0.5, STEPS)
    report("five NaN in a row", 1, figures=f"back to step 30, half the rate, {STEPS} steps taken")


def test_a_loss_that_stays_faulty_ends_the_run(tmp_path: Path, report: Report) -> None:
    session = make_session(tmp_path, phrasebook_texts())
    with (
        scaled_gradients(session, set(range(33, STEPS)), math.nan, repeat=True),
        pytest.raises(DragomanError, match="again") as error,
    ):
        fit(session)
    damaged = [step for step in session.run.steps() if not is_whole(session.run.step_folder(step))]
    report("NaN from step 33 on", 1, damaged[:1], f"ends: {str(error.value)[:60]}...")
