"""Learning-rate schedules (Vaswani et al. 2017, section 5.3)."""

import math

from dragoman.config import TrainSettings


def learning_rate(step: int, settings: TrainSettings, d_model: int) -> float:
    """The rate of optimiser step `step`, counted from 1.

    noam is the paper's equation 3 times `learning_rate`; inverse_sqrt rises linearly to `learning_rate` over the
    warm-up and then falls with 1/sqrt(step), the same shape with a free peak; constant stays after the warm-up;
    linear and cosine fall from there to 0 after `max_steps`, so that the last step still moves a little.
    """
    warmup = max(settings.warmup_steps, 1)
    if settings.schedule == "noam":
        return settings.learning_rate / math.sqrt(d_model) * min(1 / math.sqrt(step), step / math.sqrt(warmup) ** 3)
    rise = min(1.0, step / warmup)
    if settings.schedule == "inverse_sqrt":
        return settings.learning_rate * min(rise, math.sqrt(warmup / step))
    if settings.schedule in ("linear", "cosine"):
        left = 1 - min(1.0, max(0, step - warmup) / (settings.max_steps + 1 - warmup))
        share = left if settings.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2
        return settings.learning_rate * rise * share
    return settings.learning_rate * rise
