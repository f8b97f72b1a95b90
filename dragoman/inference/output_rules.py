"""The rules of an output that every search keeps: its tokens, its length, and how its score depends on its length.

A hypothesis of n tokens (eos included) has score = log_prob / penalty(n). Without a penalty, search prefers short
outputs, because every further token can only lower log_prob. Both penalties never fall with n, which the beam's stop
rule relies on.
"""

import numpy as np
import numpy.typing as npt

from dragoman.config import InferenceSettings
from dragoman.text.tokenization.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

NEVER_WRITTEN = (PAD_ID, BOS_ID, UNK_ID)
LARGEST_CONTROL_ID = max(PAD_ID, BOS_ID, EOS_ID, UNK_ID)


def unwritable(position: int, min_tokens: int) -> tuple[int, ...]:
    """The ids that no search writes at `position`, from 0. Prefixes may contain them."""
    return (*NEVER_WRITTEN, EOS_ID) if position < min_tokens else NEVER_WRITTEN


def output_limit(src_length: int, prefix_length: int, settings: InferenceSettings, max_length: int | None) -> int:
    """The longest output in tokens, eos included: `max_extra_tokens` more than the source, and room for the prefix.

    `max_length` is the limit of the model, None if it has none.
    """
    limit = max(src_length + settings.max_extra_tokens, prefix_length + 1)
    return max(1, limit if max_length is None else min(limit, max_length))


def length_penalties(settings: InferenceSettings, lengths: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The penalty at each length (at least 1).

    Computed in float64: processors raise several numbers to a power at once and the rest in another way, whose last bit
    may differ. In float32 the results are the same.
    """
    exact = np.asarray(lengths, np.float64)
    penalty = {"paper": paper_penalty, "power": power_penalty}[settings.length_penalty]
    return np.asarray(penalty(exact, settings.length_penalty_alpha), np.float32)


def paper_penalty(lengths: npt.NDArray[np.float64], alpha: float) -> npt.NDArray[np.float64]:
    """((5 + n) / 6) ** alpha, as in "Attention Is All You Need", section 6.1 (Wu et al. 2016, equation 14)."""
    return ((5.0 + lengths) / 6.0) ** alpha


def power_penalty(lengths: npt.NDArray[np.float64], alpha: float) -> npt.NDArray[np.float64]:
    """n ** alpha; with alpha 1 the score is the mean log-probability of a token."""
    return lengths**alpha
