"""Rules that every search applies to outputs: forbidden tokens, limits of the length, and the length penalty.

A hypothesis of n tokens (eos included) has score = log_prob / penalty(n). Without a penalty, search prefers short
outputs, because every further token lowers log_prob. Both penalties are non-decreasing in n. The stopping rule of beam
search needs this.
"""

import numpy as np
import numpy.typing as npt

from dragoman.config import InferenceSettings
from dragoman.text.tokenization.control_ids import EOS_ID, NEVER_WRITTEN


def unwritable(position: int, min_tokens: int) -> tuple[int, ...]:
    """Ids that a search must not write at `position`, counted from 0. Forced prefixes may contain them."""
    return (*NEVER_WRITTEN, EOS_ID) if position < min_tokens else NEVER_WRITTEN


def output_limit(src_length: int, prefix_length: int, settings: InferenceSettings, max_length: int | None) -> int:
    """Maximum length of an output in tokens, eos included.

    This is the length of the source (eos included) plus `max_extra_tokens`, or the length of the prefix plus 1 if that
    is more. `max_length` is the model's limit, None for no limit.
    """
    limit = max(src_length + settings.max_extra_tokens, prefix_length + 1)
    return max(1, limit if max_length is None else min(limit, max_length))


def length_penalties(settings: InferenceSettings, lengths: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The length penalty at each length, which must be at least 1.

    Powers are computed in float64 and rounded to float32. NumPy's vectorized power and its remainder loop can differ in
    the last bit, which rounding removes.
    """
    exact = np.asarray(lengths, np.float64)
    penalty = {"paper": paper_penalty, "power": power_penalty}[settings.length_penalty]
    return np.asarray(penalty(exact, settings.length_penalty_alpha), np.float32)


def paper_penalty(lengths: npt.NDArray[np.float64], alpha: float) -> npt.NDArray[np.float64]:
    """((5 + n) / 6) ** alpha: Wu et al. 2016, equation 14, used in "Attention Is All You Need", section 6.1."""
    return ((5.0 + lengths) / 6.0) ** alpha


def power_penalty(lengths: npt.NDArray[np.float64], alpha: float) -> npt.NDArray[np.float64]:
    """n ** alpha. With alpha 1, the score is the mean log-probability of a token."""
    return lengths**alpha
