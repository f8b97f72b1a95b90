"""Stages: the epochs in which each of several corpora is used.

The settings give shares of the run (``from``, ``until``). At the start of a run, they become whole epochs, which the
checkpoints keep. A limit that is raised later does not move them: the last stage becomes longer.
"""

import math
from dataclasses import replace
from itertools import pairwise

from dragoman.config import TrainSettings
from dragoman.config.loading import flag_of
from dragoman.data.mixing import ENDLESS, MixedPairs, epoch_tokens
from dragoman.errors import ConfigError
from dragoman.training.limits import TrainingPace
from dragoman.training.session import TrainingSession

_WHOLE_RUN = (0.0, 1.0)


def settle_stages(session: TrainingSession) -> None:
    """Give each corpus of the session its epochs: those of the checkpoint, or for a new run, those of the settings.

    Raises ConfigError if a corpus would be used in no epoch.
    """
    corpora, train, state = session.model.config.corpora, session.train, session.state
    if not isinstance(train, MixedPairs) or all((one.from_, one.until) == _WHOLE_RUN for one in corpora):
        return
    if not state.step:
        order = sorted(range(len(corpora)), key=lambda place: -corpora[place].weight)  # that of the store
        shares = [(corpora[place].from_, corpora[place].until) for place in order]
        shares += [_WHOLE_RUN] * (len(train.corpora) - len(shares))  # replay data
        state.stages, total = stages_of(train, shares, session.settings)
        for place, share, (first, end) in zip(order, shares, state.stages, strict=False):
            if first >= min(end, total) and share != _WHOLE_RUN:
                raise ConfigError(_too_short(session, place))
        state.patience_step = 0 if last_stage(state.stages) == 0 else -1
    session.train = train.with_epochs([(first, end) for first, end in state.stages])
    for number, (first, end) in enumerate(state.stages):
        if not state.step and (first or end < ENDLESS):
            until = "on" if end == ENDLESS else f"to {end}"
            when = f"in epoch {end}" if end == first + 1 else f"from epoch {first + 1} {until}"
            session.log.say(f"{session.train.corpora[number].name} is used {when}.")


def stages_of(
    train: MixedPairs, shares: list[tuple[float, float]], settings: TrainSettings
) -> tuple[list[list[int]], int]:
    """The first epoch with each corpus and the first one without it, and the number of epochs of the run.

    A limit in steps becomes epochs by the target tokens of each stage, because corpora differ in the lengths of their
    sentences. With both limits, the nearest one counts.
    """
    moments = sorted({0.0, 1.0, *(moment for share in shares for moment in share)})
    lengths = []
    for first, end in pairwise(moments):
        used = [(0, ENDLESS) if share[0] <= first < share[1] else (ENDLESS, ENDLESS) for share in shares]
        steps_in_epoch = epoch_tokens(train.with_epochs(used)) / settings.batch_tokens
        lengths.append(
            ((end - first) * settings.max_steps / max(1.0, steps_in_epoch), (end - first) * settings.max_epochs)
        )
    by_steps, by_epochs = map(sum, zip(*lengths, strict=True))
    kind = 0 if by_steps and (not by_epochs or by_steps < by_epochs) else 1
    epochs = {0.0: 0}
    passed = 0.0
    for moment, length in zip(moments[1:], lengths, strict=True):
        passed += length[kind]
        epochs[moment] = math.floor(passed + 0.5)
    return [[epochs[first], epochs[end] if end < 1.0 else ENDLESS] for first, end in shares], epochs[1.0]


def last_stage(stages: list[list[int]]) -> int:
    """The first epoch of the last stage, from which patience counts."""
    return max((epoch for stage in stages for epoch in stage if epoch < ENDLESS), default=0)


def _too_short(session: TrainingSession, place: int) -> str:
    corpus, settings, steps = session.model.config.corpora[place], session.settings, session.steps_in_epoch
    share, named = corpus.until - corpus.from_, " and ".join(corpus.files)
    limit = TrainingPace(0, 0.0, 1.0, steps).steps_until(replace(settings, max_minutes=0.0))[1]
    enough = math.ceil(1 / share) * (1 if limit == "train.max_epochs" else steps)
    return (
        f"`corpora[{place}]` ({named}) is used in {share:.0%} of the run, less than an epoch of {steps:,} steps. "
        f"Set `{flag_of(limit)} {enough}` or more, or a longer stage."
    )
