"""The end of a run, in which the learning rate falls linearly to 0 (`train.decay_share`; Hägele et al. 2024).

The decay starts when the nearest limit leaves the run this share of its length, or when patience is lost. The state of
the run has the line on which the rate falls, so a killed run continues on it. With a limit on minutes, each validation
forecasts the end again.

The checkpoint at the start of the decay is kept. A run that continues with a higher limit goes back to it, and takes
the steps of a run that had this limit from its start.
"""

import math
import os
from dataclasses import replace

from dragoman.config import TrainSettings
from dragoman.evaluation.learning_curve import LEAST_BLEU, forecast_bleu
from dragoman.files import remove_folder
from dragoman.training.run.run_folder import Decay, RunFolder, TrainState

_SHARE_AFTER_PATIENCE = 0.2


def share_after_patience(train: TrainSettings) -> float:
    """The share of the run that a decay takes after patience is lost: `train.decay_share`, but at most a fifth.

    Such a run does not need a long decay, because its scores no longer rise.
    """
    return min(train.decay_share, _SHARE_AFTER_PATIENCE)


def progress_of(state: TrainState, train: TrainSettings, steps_in_epoch: int) -> float:
    """The share of the run that is done, by the nearest limit. 0 without limits."""
    done = [
        (state.step, train.max_steps),
        (state.epoch + state.step_in_epoch / steps_in_epoch, train.max_epochs),
        (state.seconds, 60 * train.max_minutes),
    ]
    return max((part / limit for part, limit in done if limit), default=0.0)


def decay_factor(state: TrainState) -> float:
    """The factor on the learning rate of step `state.step`: 1 before the decay. It stays above 0 to the end."""
    if (decay := state.decay) is None:
        return 1.0
    left = max(1, decay.end + 1 - state.step) / (decay.end + 1 - decay.step)
    return decay.factor * min(1.0, left)


def start_decay(state: TrainState, train: TrainSettings, progress: float, has_lost_patience: bool) -> bool:
    """Start the decay if it is due after this step. Returns whether it starts."""
    is_due = has_lost_patience or progress >= 1 - train.decay_share
    if not train.decay_share or state.decay is not None or not is_due:
        return False
    end = state.step / progress if progress else math.inf
    if has_lost_patience:
        end = min(end, state.step / (1 - share_after_patience(train)))
    state.decay = Decay(state.step, state.step, progress, 1.0, round(end), has_lost_patience)
    return True


def forecast_end(state: TrainState, progress: float) -> None:
    """Let the rate fall from its current value to 0 at the limit, at the pace since the last forecast."""
    decay = state.decay
    if decay is not None and not decay.by_patience and progress > decay.progress:
        steps = (1 - progress) * (state.step - decay.step) / (progress - decay.progress)
        end, factor = max(state.step + 1, round(state.step + steps)), decay_factor(state)
        state.decay = replace(decay, step=state.step, progress=progress, factor=factor, end=end)


def bleu_at_end(state: TrainState, train: TrainSettings, progress: float) -> dict[str, float]:
    """Forecast BLEU at the end of a run, as fields of its log: a median, and an interval that has it 9 times of 10.

    Empty at the end, before two validations after the warm-up, in fine-tuning, and in runs with stages.
    """
    tokens = state.tgt_tokens / max(1, state.step)
    points = [
        (tokens * record.step, record.bleu)
        for record in state.validations
        if record.step > train.warmup_steps and record.bleu >= LEAST_BLEU
    ]
    if len(points) < 2 or progress >= 1 or train.start_from or state.stages:
        return {}
    end = state.step / progress if progress else math.inf
    if state.decay is not None and state.decay.by_patience:
        end = min(end, state.decay.end)
    forecast = forecast_bleu(points, tokens * end)
    return {"bleu_at_end": forecast.median, "bleu_at_end_low": forecast.low, "bleu_at_end_high": forecast.high}


def go_back_to(run: RunFolder, step: int, best: int) -> None:
    """Remove the checkpoints after `step`. The run's model becomes RUN/previous, if it is newer."""
    model = run.averaged if run.averaged.exists() else run.step_folder(best) if best > step else None
    if model is not None:
        remove_folder(run.previous)
        os.replace(model, run.previous)
    run.remove_all_but([each for each in run.steps() if each <= step])
