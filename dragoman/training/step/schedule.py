"""Learning-rate schedules (Vaswani et al. 2017, section 5.3).

With warm-up w, model width d and learning rate r, the rates at step t are:

=============  ==================================================
noam           r d^-0.5 min(t^-0.5, t w^-1.5), equation 3 times r
inverse_sqrt   r min(t / w, (w / t)^0.5)
constant       r min(1, t / w)
linear         r min(1, t / w) s
cosine         r min(1, t / w) (1 - cos(pi s)) / 2
=============  ==================================================

where s falls linearly from 1 at step w to 0 at step `max_steps` + 1. So the last step still has a small rate.
"""

import math

from dragoman.config import TrainSettings


def learning_rate(step: int, settings: TrainSettings, d_model: int) -> float:
    """The learning rate of optimizer step `step`, counted from 1."""
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
