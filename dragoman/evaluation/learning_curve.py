"""Forecasts of BLEU during training, by the shape of its curve.

After x target tokens of training, BLEU is about s (1 - exp(-(x / tau) ** beta)), where s is the score of a long run.
s differs with the corpus from 0 to 60. tau and beta differ little between runs of one recipe, so two validations
already say much about s. `benchmarks/learning_forecast.py` compares forecasts with what came.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_SHAPES = (0.75, 1.0, 1.3)
"""Values of beta."""
_TAU, _TAU_SPREAD = 1.6e6, 0.3
"""Median of tau in target tokens, and the scale of its natural logarithm (Student's t with 2 degrees of freedom).

Its long tails let other sizes of model, whose tau was not measured, learn tau from the validations.
"""
_TAUS = np.geomspace(5e4, 2e9, 400)
_NOISE, _RELATIVE_NOISE = 0.6, 0.02
"""Standard deviation of a validation's BLEU around the curve: a constant, and a share of the score."""
_INDEPENDENT_VALIDATIONS = 4
"""The most validations that count as independent. All deviate from the curve in the same way."""
_HIGH_BLEU = 70.0
"""A score of a long run above which a curve counts as unlikely."""

LEAST_BLEU = 1.0
"""A score below this comes from the frequent words alone, and says nothing about the curve."""
TOKENS_TO_90_PERCENT = 3.5e6, 5e6, 6.5e6
"""Target tokens until a new model as large as the preset "tiny" has 90 % of the BLEU of a long run.

The least, the middle and the most of the measured corpora.
"""


class BleuForecast(NamedTuple):
    """The median of a forecast of BLEU, 0 to 100, and the interval that should contain the score in 9 of 10 runs."""

    low: float
    median: float
    high: float


def forecast_bleu(points: Sequence[tuple[float, float]], end: float) -> BleuForecast:
    """Forecast BLEU from at least two validations.

    Parameters
    ----------
    points
        For each validation after the warm-up, the target tokens trained on so far, and BLEU, 0 to 100.
    end
        Target tokens at the end of the run. Infinite if only patience ends it.
    """
    shape, tau = (grid.ravel() for grid in np.meshgrid(_SHAPES, _TAUS))
    tokens, found = np.asarray(points).T[:, :, None]
    curves = 1 - np.exp(-((tokens / tau) ** shape))
    weights = (_NOISE + _RELATIVE_NOISE * found) ** -2
    limits = np.minimum(100, (weights * curves * found).sum(0) / (weights * curves**2).sum(0))  # the best s for each
    misfit = (weights * (found - limits * curves) ** 2).sum(0) * min(1.0, _INDEPENDENT_VALIDATIONS / len(points))
    prior = -1.5 * np.log1p((np.log(tau / _TAU) / _TAU_SPREAD) ** 2 / 2)
    evidence = prior - 0.5 * misfit - 9.0 * (limits > _HIGH_BLEU)
    share = np.exp(evidence - evidence.max())
    at_end = limits * (1 - np.exp(-((end / tau) ** shape)))
    order = np.argsort(at_end)
    low, median, high = np.interp((0.05, 0.5, 0.95), np.cumsum(share[order]) / share.sum(), at_end[order])
    noise = _NOISE + _RELATIVE_NOISE * median
    return BleuForecast(max(0.0, float(low - noise)), float(median), min(100.0, float(high + noise)))
