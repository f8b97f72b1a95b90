"""How much of a score is chance: what it would be on other tests, made from the sentences of this one.

Bootstrap and paired bootstrap: Koehn 2004. Approximate randomisation: Riezler and Maxwell 2005. Statistics, samples
and p-values are those of sacreBLEU's paired tests with its seed. Here the samples come in blocks, whose memory does not
grow with the test, and the difference has an interval too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric

SEED = 12345
RESAMPLES = 1000
TRIALS = 10_000
_DRAWS_AT_ONCE = 2_000_000
_BITS_OF_A_DRAW = 32

_LEVEL = 0.05

Statistics = NDArray[np.float64]
"""One row a sentence; a metric's score is a function of their sum."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The difference of two scores, second minus first, on a test of `num_sentences` sentences.

    95 % of the resampled differences lie in `interval`. `p_randomisation` is two-sided. `p_bootstrap` is Moses' and
    sacreBLEU's, whose chance differences are the sizes of the resampled ones less their mean: about half of a two-sided
    one, and far below 1 for two systems that are level, so that it alone shows nothing.
    """

    num_sentences: int
    difference: float
    interval: tuple[float, float]
    p_bootstrap: float
    p_randomisation: float

    @property
    def is_significant(self) -> bool:
        """Whether both tests say so at 0.05, and the interval too.

        Never on fewer than six sentences, which can be shuffled in so few ways that one in twenty or more is as far
        apart as what was found; p-values as sacreBLEU has them do not count those.
        """
        low, high = self.interval
        by_chance = max(self.p_bootstrap, self.p_randomisation)
        return by_chance < _LEVEL and 2 / 2**self.num_sentences < _LEVEL and not low <= 0 <= high


def statistics_of(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """What `metric` counts in each sentence."""
    return np.array(metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64)


def score_of(metric: Metric, sums: Statistics) -> float:
    """The score of sentences whose statistics have these sums."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def resampled_scores(metric: Metric, *systems: Statistics) -> Statistics:
    """The scores of each system on `RESAMPLES` tests sampled with replacement, the same tests for all systems."""
    size = len(systems[0])
    sums: list[list[Statistics]] = [[] for _ in systems]
    rng = np.random.default_rng(SEED)
    for rows in _blocks(RESAMPLES, size):
        drawn = rng.choice(size, size=(rows, size), replace=True)
        times = np.stack([np.bincount(one, minlength=size) for one in drawn]).astype(np.float64)
        for own, statistics in zip(sums, systems, strict=True):
            own.append(times @ statistics)
    return np.array([[score_of(metric, row) for block in own for row in block] for own in sums])


def interval_of(scores: Statistics) -> tuple[float, float]:
    """The middle 95 % of the scores."""
    ordered = np.sort(scores)
    outside = len(ordered) // 40
    return float(ordered[outside]), float(ordered[len(ordered) - outside - 1])


def significance(
    metric: Metric, first: Statistics, second: Statistics, resampled: Statistics, trials: int = TRIALS
) -> Significance:
    """How sure the difference of two systems on one test is; `resampled` are the scores of both.

    Two systems with one score have p-values of 1, where sacreBLEU's have the smallest that is possible.
    """
    difference = score_of(metric, second.sum(0)) - score_of(metric, first.sum(0))
    differences = resampled[1] - resampled[0]
    sizes = np.abs(differences)
    shuffled = _shuffled_differences(metric, first, second, trials) if difference else np.zeros(trials)
    p_values = _p_value(sizes - sizes.mean(), difference), _p_value(shuffled, difference)
    return Significance(len(first), difference, interval_of(differences), *p_values)


def _shuffled_differences(metric: Metric, first: Statistics, second: Statistics, trials: int) -> NDArray[np.float64]:
    """How far two systems are apart that share out the sentences of the two by lot."""
    rng = np.random.default_rng(SEED)
    both = first.sum(0) + second.sum(0)
    found: list[float] = []
    for rows in _blocks(trials, len(first)):
        chosen = rng.integers(2, size=(rows, len(first)), dtype=bool).astype(np.float64)
        ones = second.sum(0) + chosen @ (first - second)
        found += [abs(score_of(metric, one) - score_of(metric, both - one)) for one in ones]
    return np.array(found)


def _p_value(chance: NDArray[np.float64], difference: float) -> float:
    """The share of differences by chance that are larger (Noreen 1989: the one that was found counts as well)."""
    return float((np.sum(chance > abs(difference)) + 1) / (len(chance) + 1)) if difference else 1.0


def _blocks(rows: int, size: int) -> Iterator[int]:
    """`rows` in parts; all but the last are multiples of 32, so that drawing in parts is drawing at once."""
    most = max(1, _DRAWS_AT_ONCE // size // _BITS_OF_A_DRAW) * _BITS_OF_A_DRAW
    while rows > 0:
        yield min(rows, most)
        rows -= most
