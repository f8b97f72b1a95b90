"""The limits of a run: steps, time and disk space, and the settings that a run fits to them.

Unless the user sets them, these are the warm-up and the steps between validations. A new run fits them at its start. A
run that continues fits them again if a limit was raised since its checkpoint. It compares the limits of the checkpoint,
so a run that was killed before the next checkpoint fits them in the same way.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from dragoman.bundle.folder import read_settings
from dragoman.config import Config, TrainSettings, ValidateSettings
from dragoman.config.loading import flag_of
from dragoman.config.recipes import WARMUP_SHARE, fit_warmup
from dragoman.errors import ResourceError
from dragoman.files import free_space
from dragoman.training.run.log import duration
from dragoman.training.session import TrainingSession

# The share of a time limit left for gradients. A warm-up that is too long costs more than one slightly too short.
_GRADIENTS_SHARE = 0.75
_VALIDATIONS = {"validate.every_epochs", "validate.every_steps"}
_SILENCE_SECONDS = 20.0
"""If the next log line is further away than this, the run announces it."""
_MOST_VALIDATIONS, _FEW_VALIDATIONS = 5, 3
"""The validations until a limit that advice and fitted settings allow, and the least that tell if scores still rise."""
_LEAST_INTERVAL, _LEAST_INTERVAL_OF_MINUTES = 10, 100
"""The fewest steps between fitted validations. One takes as long as up to 45 steps, which a time limit includes."""


@dataclass(frozen=True, slots=True)
class TrainingPace:
    """The position of a run (steps taken, seconds spent) and its speed."""

    step: int
    seconds: float
    step_seconds: float
    steps_in_epoch: int

    def steps_until(self, train: TrainSettings) -> tuple[float, str]:
        """The step at which the nearest limit ends the run, and the key of that limit. Infinity if no limit is set."""
        minutes = train.max_minutes and self.step + max(0.0, 60 * train.max_minutes - self.seconds) / self.step_seconds
        limits = {
            "train.max_steps": float(train.max_steps),
            "train.max_epochs": float(train.max_epochs * self.steps_in_epoch),
            "train.max_minutes": minutes,
        }
        found = [(steps, key) for key, steps in limits.items() if steps]
        return min(found, default=(math.inf, ""))

    def limit_for(self, key: str, steps: float) -> str:
        """The flag and value that let the run take `steps` steps."""
        units = {"train.max_steps": 1.0, "train.max_epochs": 1 / self.steps_in_epoch}
        per_step = units.get(key, self.step_seconds / 60)
        start = self.seconds / 60 - self.step * per_step if key == "train.max_minutes" else 0.0
        return f"`{flag_of(key)} {_round_up(start + steps * per_step):,}`".replace(",", "")


def limit_notes(train: TrainSettings, validate: ValidateSettings, pace: TrainingPace, validated: bool) -> list[str]:
    """A warning if the nearest limit ends the run within its warm-up, and one if before its first validation."""
    end, key = pace.steps_until(train)
    if not key:
        return []
    limit = f"`{key}` = {getattr(train, key.partition('.')[2]):g}"
    notes = []
    if end <= train.warmup_steps:
        fitting = max(1, int(end * WARMUP_SHARE))
        notes.append(
            f"{limit} ends this run after about {end:,.0f} steps, within its warm-up of {train.warmup_steps:,}: the "
            f"learning rate never reaches its peak. Set {pace.limit_for(key, train.warmup_steps / WARMUP_SHARE)}, or "
            f"start a new run with `--train.warmup-steps {fitting}`."
        )
    every = [steps for steps in (validate.every_epochs * pace.steps_in_epoch, validate.every_steps) if steps]
    first = min(every)
    if not validated and end < first:
        often = max(1, int(end / _MOST_VALIDATIONS))
        notes.append(
            f"{limit} ends this run after about {end:,.0f} steps, before its first validation at step {first:,}. Set "
            f"{pace.limit_for(key, first * _MOST_VALIDATIONS)}, or start a new run with "
            f"`--validate.every-steps {often}`."
        )
    return notes


def fit_validations(validate: ValidateSettings, pace: TrainingPace, end: float, limit: str) -> ValidateSettings:
    """The settings, with an interval of steps if step `end` comes before three validations. `limit` ends the run."""
    every = max(
        end / _MOST_VALIDATIONS, _LEAST_INTERVAL_OF_MINUTES if limit == "train.max_minutes" else _LEAST_INTERVAL
    )
    first = validate.every_epochs * pace.steps_in_epoch
    if every >= first or end >= _FEW_VALIDATIONS * first:
        return validate
    return replace(validate, every_epochs=0, every_steps=int(every))


def pace_note(train: TrainSettings, pace: TrainingPace) -> str | None:
    """When the next progress line comes, or None if it comes soon."""
    steps = train.log_every_steps - pace.step % train.log_every_steps
    if steps * pace.step_seconds <= _SILENCE_SECONDS:
        return None
    return (
        f"A step takes {pace.step_seconds:.2g} s; progress is logged every {train.log_every_steps:,} steps "
        f"(`train.log_every_steps`), next in about {duration(steps * pace.step_seconds)}."
    )


def validations_until(config: Config, steps: float, steps_in_epoch: float) -> int:
    """The number of validations in a run of this many steps, including the one at its end."""
    by_epoch = steps_in_epoch * config.validate.every_epochs
    intervals = [1 / each for each in (by_epoch, config.validate.every_steps) if each]
    return max(1, round(min(steps * sum(intervals), 1e9)))


def kept_bytes(train: TrainSettings, validations: int, checkpoint_bytes: int, parameters: int) -> int:
    """The most disk space that a run needs at once, in bytes: checkpoints and the averaged model."""
    kept = max(train.keep_checkpoints, train.average_last) + train.average_best + 1 + 2 * (train.decay_share > 0)
    return checkpoint_bytes * min(kept, validations + 1) + 4 * parameters


def check_disk(train: TrainSettings, folder: Path, needed: int, there: int) -> None:
    """Raise ResourceError if `needed` bytes exceed the bytes already `there` plus the free space of the disk."""
    missing, free = needed - there, free_space(folder)
    if missing > free:
        raise ResourceError(
            f"{folder} is on a disk with {free:,} bytes free, but the checkpoints that this run will keep need "
            f"{missing:,}. Choose an `--out` on another disk, or fewer `train.keep_checkpoints` "
            f"({train.keep_checkpoints} now)."
        )


def _round_up(value: float) -> int:
    """Rounded up to two significant digits."""
    unit = 10.0 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return max(1, round(math.ceil(value / unit - 1e-9) * unit))


def fitting_values(config: Config, given: Collection[str]) -> dict[str, float]:
    """The settings of `config` that a run may fit, by key. A setting in `given` stays as the user set it.

    The peak rate of noam depends on the warm-up, so both are fitted or neither.
    """
    keys = set() if _VALIDATIONS & set(given) else set(_VALIDATIONS)
    warmup = {"train.warmup_steps"} | ({"train.learning_rate"} if config.train.schedule == "noam" else set())
    return _values(config, keys if warmup & set(given) else keys | warmup)


def refit_settings(session: TrainingSession) -> None:
    """Fit the settings of a run that continues again, if its limits allow more steps than those of its checkpoint."""
    state, may_fit = session.state, session.fits
    before = state.fitted if state.step else may_fit
    state.fitted = {key: value for key, value in before.items() if key in may_fit}
    if not state.step or not state.fitted:
        return
    checkpoint = read_settings(session.run.step_folder(state.step))
    _use(session, _with_values(session.model.config, _values(checkpoint, state.fitted)))
    if limits_were_raised(session):
        fit_settings(session, _pace(session))


def limits_were_raised(session: TrainingSession) -> bool:
    """Whether the limit that ends the run, or starts its decay, was raised since the newest checkpoint."""
    state, now, pace = session.state, session.settings, _pace(session)
    before = read_settings(session.run.step_folder(state.step)).train
    if state.decay is not None and state.decay.by_patience:
        return not now.patience or now.patience > before.patience
    return pace.steps_until(now)[0] > pace.steps_until(before)[0]


def _pace(session: TrainingSession) -> TrainingPace:
    state = session.state
    return TrainingPace(state.step, state.seconds, median(state.step_seconds), session.steps_in_epoch)


def fit_settings(session: TrainingSession, pace: TrainingPace) -> None:
    """Fit the settings of the session to the nearest limit, and report the changes.

    A part of a time limit is set aside for updates, validations and saving. The warm-up of a run that continues never
    becomes shorter.
    """
    state, config = session.state, session.model.config
    spent = pace.seconds / 60
    minutes = max(0.0, config.train.max_minutes - spent) * _GRADIENTS_SHARE + spent if config.train.max_minutes else 0.0
    end, limit = session.processes.call_on_first(lambda: pace.steps_until(replace(config.train, max_minutes=minutes)))
    unfitted = _with_values(config, state.fitted)
    train = fit_warmup(unfitted.train, end)
    if state.step and train.warmup_steps < config.train.warmup_steps:
        train = config.train
    fitting = replace(config, train=train, validate=fit_validations(unfitted.validate, pace, end, limit))
    now = _with_values(config, _values(fitting, state.fitted))  # only the settings that may be fitted
    before, after = (_values(each, state.fitted) for each in (config, now))
    if before == after:
        return
    _use(session, now)
    if state.step:
        first = state.step + 1
        state.refits.append({"step": first, **before})
        session.log.change(first, before, after)
    reason = f"`{limit}` = {_values(config, [limit])[limit]:g}" if limit else "No limit"
    reason += f" allows about {end:,.0f} step{'s' * (round(end) != 1)}" if limit == "train.max_minutes" else ""
    since = f" from step {state.step + 1:,} on" if state.step else ""
    if now.train != config.train:
        warmups = [f"{each.train.warmup_steps:,}" for each in (now, config)]
        session.log.say(f"{reason}: the warm-up is {' steps instead of '.join(warmups)}{since} (`train.warmup_steps`).")
    if now.validate != config.validate:
        intervals = [_interval(each.validate) for each in (now, config)]
        session.log.say(f"{reason}: validations come {' instead of '.join(intervals)}{since} (`validate.every_steps`).")


def _interval(validate: ValidateSettings) -> str:
    return f"every {validate.every_steps:,} steps" if validate.every_steps else "once per epoch"


def _use(session: TrainingSession, config: Config) -> None:
    """Let the session continue with this configuration, and record it for the run."""
    if config != session.model.config:
        session.model = replace(session.model, config=config)
        session.processes.call_on_first(lambda: session.freeze(config))


def _values(config: Config, keys: Collection[str]) -> dict[str, float]:
    values = config.by_key
    return {key: values[key] for key in sorted(keys)}


def _with_values(config: Config, values: Mapping[str, float]) -> Config:
    for key, value in values.items():
        table, _, name = key.partition(".")
        config = replace(config, **{table: replace(getattr(config, table), **{name: value})})
    return config
