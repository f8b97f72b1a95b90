"""Learning-rate schedules (Vaswani et al. 2017, section 5.3)."""

import math

from dragoman.config import TrainSettings


def learning_rate(step: int, settings: TrainSettings, d_model: int) -> float:
    """The learning rate of optimizer step `step`, counted from 1.

    - noam is equation 3 of the paper times `learning_rate`.
    - inverse_sqrt has the same shape with a free peak: it rises linearly to `learning_rate` over the warm-up, and then
      falls with 1/sqrt(step).
    - constant stays at `learning_rate` after the warm-up.
    - linear and cosine fall after the warm-up and reach 0 at step `max_steps` + 1, so that the last step counts.
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
