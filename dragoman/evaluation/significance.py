"""Confidence intervals and significance tests for scores, by resampling the sentences of the test.

Bootstrap and paired bootstrap: Koehn 2004. Approximate randomization: Riezler and Maxwell 2005. Statistics, samples
and p-values equal those of sacreBLEU's paired tests with its seed. Unlike there, samples are made in blocks, so that
memory does not grow with the test, and the difference has an interval too.

- Bootstrap: the score of a test whose n sentences are sampled with replacement, 1,000 times. The middle 95 % of the
  scores are the interval.
- Paired bootstrap: both systems are scored on the same sampled tests.
- Approximate randomization: for each sentence, a coin decides whether the two systems swap their outputs, 10,000 times.
  If the systems were equal, the observed difference would look like one of these.

p = (1 + number of random differences that are larger) / (1 + number of samples), so it is never 0 (Noreen 1989).

A metric is computed from sums of counts over sentences. So a sample needs only one product of a matrix, and no text is
scored twice. `metrics` and `comparison` call this module.

References
----------
Koehn (2004), Statistical significance tests for machine translation evaluation, EMNLP.
Riezler and Maxwell (2005), On some pitfalls in automatic evaluation and significance testing for MT, ACL workshop.
Noreen (1989), Computer-intensive methods for testing hypotheses, Wiley.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric

# sacreBLEU's seed, number of bootstrap samples and number of randomization trials. Signatures name the first two.
SEED = 12345
RESAMPLES = 1000
TRIALS = 10_000
# Random numbers in a block: about 16 MB for them, and as much for the counts made from them.
_DRAWS_AT_ONCE = 2_000_000
# NumPy takes 32 random bools from one random number.
_BITS_OF_A_DRAW = 32

_LEVEL = 0.05

Statistics = NDArray[np.float64]
"""Counts of a metric, (sentences, counts). The score of a test is a function of their sum over the sentences."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The difference of two scores, second minus first, on a test of `num_sentences` sentences.

    95 % of the resampled differences are in `interval`. `p_randomisation` is two-sided. `p_bootstrap` is computed as in
    Moses and sacreBLEU, from the absolute resampled differences less their mean. It is about half of a two-sided
    p-value, and far below 1 for two equal systems, so it proves nothing alone.
    """

    num_sentences: int
    difference: float
    interval: tuple[float, float]
    p_bootstrap: float
    p_randomisation: float

    @property
    def is_significant(self) -> bool:
        """Whether both p-values are below 0.05 and the interval excludes 0.

        Always false for fewer than six sentences: they can be swapped in so few ways that at least one in twenty gives
        an equal difference. sacreBLEU's p-values do not count equal differences.
        """
        low, high = self.interval
        by_chance = max(self.p_bootstrap, self.p_randomisation)
        return by_chance < _LEVEL and 2 / 2**self.num_sentences < _LEVEL and not low <= 0 <= high


def statistics_of(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    """The counts of `metric` for each sentence, (sentences, counts).

    The methods are private to sacreBLEU, whose own significance tests use them too. It has no public ones.
    """
    return np.array(metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64)


def score_of(metric: Metric, sums: Statistics) -> float:
    """The score of a test whose counts have these sums, (counts,)."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def resampled_scores(metric: Metric, *systems: Statistics) -> Statistics:
    """Scores (systems, `RESAMPLES`) on tests sampled with replacement, the same tests for all systems.

    A sample is represented by the number of times that each sentence occurs in it, which multiplies the counts.
    """
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
    """The significance of the difference of two systems on one test. `resampled` has the scores of both.

    Two systems with equal scores have p-values of 1. sacreBLEU gives them the smallest possible p-value.
    """
    difference = score_of(metric, second.sum(0)) - score_of(metric, first.sum(0))
    differences = resampled[1] - resampled[0]
    sizes = np.abs(differences)
    shuffled = _shuffled_differences(metric, first, second, trials) if difference else np.zeros(trials)
    p_values = _p_value(sizes - sizes.mean(), difference), _p_value(shuffled, difference)
    return Significance(len(first), difference, interval_of(differences), *p_values)


def _shuffled_differences(metric: Metric, first: Statistics, second: Statistics, trials: int) -> NDArray[np.float64]:
    """Absolute differences (trials,) of two systems after swapping random sentences between them."""
    rng = np.random.default_rng(SEED)
    both = first.sum(0) + second.sum(0)
    found: list[float] = []
    for rows in _blocks(trials, len(first)):
        chosen = rng.integers(2, size=(rows, len(first)), dtype=bool).astype(np.float64)
        ones = second.sum(0) + chosen @ (first - second)
        found += [abs(score_of(metric, one) - score_of(metric, both - one)) for one in ones]
    return np.array(found)


def _p_value(chance: NDArray[np.float64], difference: float) -> float:
    """The share of larger differences by chance. The observed one is counted too (Noreen 1989)."""
    return float((np.sum(chance > abs(difference)) + 1) / (len(chance) + 1)) if difference else 1.0


def _blocks(rows: int, size: int) -> Iterator[int]:
    """Split `rows` into blocks. All but the last are multiples of 32, so blocks give the same random numbers as one."""
    most = max(1, _DRAWS_AT_ONCE // size // _BITS_OF_A_DRAW) * _BITS_OF_A_DRAW
    while rows > 0:
        yield min(rows, most)
        rows -= most
