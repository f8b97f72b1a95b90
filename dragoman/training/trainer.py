"""Training in a folder from start to end: restore, train, go back after divergence, and average the weights."""

import math
from dataclasses import replace

import torch

from dragoman.bundle import Weights
from dragoman.devices.without_torch import keep_freed_memory
from dragoman.files import remove_folder
from dragoman.signals import catch_signals
from dragoman.training.decay import go_back_to
from dragoman.training.distributed import ShardedModel
from dragoman.training.limits import check_disk, kept_bytes, limits_were_raised, refit_settings, validations_until
from dragoman.training.loop import Diverged, Loop
from dragoman.training.run.checkpoint import card_of, means_of, restore_latest, set_weights
from dragoman.training.session import TrainingSession
from dragoman.training.stages import settle_stages
from dragoman.training.step.memory import memory_errors
from dragoman.training.step.optimizer import build_optimizer, optimizer_bytes

_SMALL_FILES_BYTES = 1 << 20
"""Of a checkpoint: tokenizers, settings, state, card."""


def fit(session: TrainingSession) -> str:
    """Train until a limit or patience ends the run, from the newest checkpoint if there is one.

    Parameters
    ----------
    session : TrainingSession
        The model, data and folder. Afterwards it has the trained model, and the state of the run.

    Returns
    -------
    str
        Why training ended, such as "train.max_steps = 1000 reached".

    Raises
    ------
    Interrupted
        A signal (SIGINT, SIGTERM, SIGHUP) stopped the run, after a checkpoint was saved.
    ConfigError
        Losses are not finite even at half the learning rate.
    ResourceError
        The disk or the memory is too small.
    CheckpointError
        The run has checkpoints, but none is intact.
    """
    session.processes.call_on_first(session.run.tidy)
    if session.settings.sharding == "full" and session.processes.count > 1:
        session.sharded = ShardedModel(session.transformer, session.settings, session.processes)
    optimizer = build_optimizer(session.transformer, session.settings)
    restore_session(session, optimizer)
    session.processes.call_on_first(lambda: _check_disk(session, optimizer))
    if session.state.step:
        session.log.say(f"Continuing after step {session.state.step}.")
    session.processes.call_on_first(lambda: session.log.drop_after(session.state.step or -1))
    _continue_before_decay(session, optimizer)
    settle_stages(session)
    refit_settings(session)
    keep_freed_memory()
    smaller = "Choose a smaller `model.preset`, or lower `data.max_tokens`."
    with catch_signals() as request, memory_errors("training", smaller):
        while True:
            try:
                reason = Loop(session, optimizer).run(request)
                weights = Weights.of(session.gather_model())
                session.model, session.sharded = replace(session.model, weights=weights), None
                return reason
            except Diverged:
                _go_back(session, optimizer)


def restore_session(session: TrainingSession, optimizer: torch.optim.Optimizer) -> None:
    """Restore the newest intact checkpoint, and log why newer ones were skipped."""
    session.state, notes = restore_latest(session.run, session.transformer, optimizer)
    for note in notes:
        session.log.say(note)
    if session.state.step:
        session.processes.call_on_first(lambda: session.run.point_to(session.state))


def _continue_before_decay(session: TrainingSession, optimizer: torch.optim.Optimizer) -> None:
    """Go back to the start of the decay if a limit was raised since."""
    state, run = session.state, session.run
    if state.decay is None or not session.processes.call_on_first(lambda: limits_were_raised(session)):
        return
    step, best = state.decay.start, state.best.step if state.best else 0
    if damage := run.damage(step):
        session.log.say(f"The run continues with the weights after its decay: {damage}")
        state.decay = None
        return
    session.processes.call_on_first(lambda: go_back_to(run, step, best))
    restore_session(session, optimizer)
    session.state.decay = None
    session.processes.call_on_first(lambda: session.log.drop_after(session.state.step))
    kept = f" The model so far is in {run.previous}." if run.previous.exists() else ""
    session.log.say(f"A limit was raised, so the run goes back to step {step:,}, before the learning rate fell.{kept}")


def _check_disk(session: TrainingSession, optimizer: torch.optim.Optimizer) -> None:
    """Raise ResourceError if the run will keep more than its models take now plus the free disk space."""
    parameters = sum(parameter.numel() for parameter in session.transformer.parameters())
    checkpoint = 4 * parameters + optimizer_bytes(optimizer) + _SMALL_FILES_BYTES
    settings, steps_in_epoch = session.settings, session.steps_in_epoch
    limits = [steps for steps in (settings.max_steps, settings.max_epochs * steps_in_epoch) if steps]
    left = max(0, min(limits, default=math.inf) - session.state.step)
    validations = validations_until(session.model.config, left, steps_in_epoch)
    needed = kept_bytes(settings, validations, checkpoint, parameters)
    check_disk(settings, session.run.path, needed, session.run.model_bytes())


def _go_back(session: TrainingSession, optimizer: torch.optim.Optimizer) -> None:
    """Go back to the last checkpoint, if there is one, and halve the learning rate."""
    memory, step = session.state.watchdog.with_half_rate(), session.state.step
    if session.run.steps():
        restore_session(session, optimizer)
        session.processes.call_on_first(lambda: session.log.drop_after(session.state.step))
        settle_stages(session)
        refit_settings(session)
    session.state.watchdog = memory
    memory.measured = [each for each in memory.measured if each.step <= session.state.step]
    session.log.finding(
        session.state.step,
        "went back",
        f"Steps up to {step} had no finite loss or gradient. Training goes back to step {session.state.step} and "
        "continues with half the learning rate, once. Lower `train.learning_rate` if that does not help.",
    )


def choose_mean(session: TrainingSession) -> tuple[int, ...]:
    """Score the means of weights that the settings request, and save the best one as RUN/averaged.

    It must score at least as well as the best checkpoint. Otherwise RUN/averaged is removed, because an older mean
    would be taken for the run's model. Returns the steps of the averaged checkpoints, or an empty tuple.
    """
    best, chosen = session.state.best, None
    damages = {step: session.run.damage(step) for step in session.run.steps()}
    for step, damage in damages.items():
        if damage:
            session.log.say(f"Checkpoint {session.run.step_folder(step).name} is not averaged: {damage}")
    intact = [step for step, damage in damages.items() if damage is None]
    means = means_of(intact, session.state, session.settings)
    if best is None or not means:
        remove_folder(session.run.averaged)
        return ()
    score, metric = best.score, session.model.config.validate.metric
    for mean in means:
        set_weights(session.transformer, mean.weights(session.run, session.transformer))
        found = session.score_of(session.measure(session.transformer))
        better = "the best single checkpoint" if chosen is None else "the other mean"
        verdict = "kept" if found >= score else f"not kept: {better} scores higher"
        session.log.say(f"{mean.name}: {metric} {abs(found):.2f}, best single {abs(best.score):.2f}; {verdict}.")
        if found >= score:
            chosen, score = mean, found
    if chosen is None:
        remove_folder(session.run.averaged)
        return ()
    if chosen is not means[-1]:
        set_weights(session.transformer, chosen.weights(session.run, session.transformer))
    card = card_of(session.state, session.model.card)
    card = replace(card, averaged_steps=chosen.steps, ema_decay=chosen.ema_decay)
    replace(session.model, card=card).save(session.run.averaged)
    return chosen.steps
