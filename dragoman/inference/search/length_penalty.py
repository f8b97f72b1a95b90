"""Length penalties: a hypothesis of n tokens (eos included) has score = log_prob / penalty(n).

Without one, search prefers short outputs, because every further token can only lower log_prob. Both penalties never
fall with n, which the beam's stop rule relies on.
"""

from jaxtyping import Float
from torch import Tensor

from dragoman.config import InferenceSettings
from dragoman.devices.device import sum_type


def length_penalty(settings: InferenceSettings, lengths: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """The penalty `settings` ask for, at each length (at least 1).

    It does not depend on the other lengths: processors raise several numbers to a power at once, and those left over
    by another way, whose last bit may be another; what is computed in float64 is the same in float32.
    """
    exact = lengths.to(sum_type(lengths.device))
    penalty = {"paper": paper_penalty, "power": power_penalty}[settings.length_penalty]
    return penalty(exact, settings.length_penalty_alpha).to(lengths.dtype)


def paper_penalty(lengths: Float[Tensor, "*n"], alpha: float) -> Float[Tensor, "*n"]:
    """((5 + n) / 6) ** alpha, as in "Attention Is All You Need", section 6.1 (Wu et al. 2016, equation 14)."""
    return ((5.0 + lengths) / 6.0) ** alpha


def power_penalty(lengths: Float[Tensor, "*n"], alpha: float) -> Float[Tensor, "*n"]:
    """n ** alpha; with alpha 1 the score is the mean log-probability of a token."""
    return lengths**alpha
