"""Settings that a run fits to its limits, unless the user sets them: the warm-up, and the steps between validations.

A new run fits them at its start. A run that continues fits them again if a limit was raised since its checkpoint. It
compares the limits of the checkpoint, so a run that was killed before the next checkpoint fits them in the same way.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from statistics import median

from dragoman.bundle.folder import read_settings
from dragoman.config import Config, ValidateSettings
from dragoman.config.recipes import fit_warmup
from dragoman.training.run.limits import TrainingPace, fit_validations
from dragoman.training.session import TrainingSession

# The share of a time limit left for gradients. A warm-up that is too long costs more than one slightly too short.
_GRADIENTS_SHARE = 0.75
_VALIDATIONS = {"validate.every_epochs", "validate.every_steps"}


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
    _use(session, _with_values(session.trained.config, _values(checkpoint, state.fitted)))
    pace = TrainingPace(state.step, state.seconds, median(state.step_seconds), session.steps_in_epoch)
    if pace.steps_until(session.settings)[0] > pace.steps_until(checkpoint.train)[0]:
        fit_settings(session, pace)


def fit_settings(session: TrainingSession, pace: TrainingPace) -> None:
    """Fit the settings of the session to the nearest limit, and report the changes.

    A part of a time limit is set aside for updates, validations and saving. The warm-up of a run that continues never
    becomes shorter.
    """
    state, config = session.state, session.trained.config
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
    if config != session.trained.config:
        session.trained = replace(session.trained, config=config)
        session.processes.call_on_first(lambda: session.freeze(config))


def _values(config: Config, keys: Collection[str]) -> dict[str, float]:
    tables = asdict(config)
    return {key: tables[key.partition(".")[0]][key.partition(".")[2]] for key in sorted(keys)}


def _with_values(config: Config, values: Mapping[str, float]) -> Config:
    for key, value in values.items():
        table, _, name = key.partition(".")
        config = replace(config, **{table: replace(getattr(config, table), **{name: value})})
    return config
