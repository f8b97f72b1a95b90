"""Compare two systems on one test: their scores, the significance of the difference, and where it comes from.

`dragoman compare` and `dragoman.compare` (`workflows/comparison.py`) call `compare_outputs`. The systems are called A
and B, and differences are B minus A. compare-mt (Neubig et al. 2019) also groups by sentence length and word frequency.
Groups and examples only describe the difference: they have no significance test.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.ter import TER

from dragoman.display import Facts, ShownRecord
from dragoman.evaluation import metrics
from dragoman.evaluation.metrics import TRIALS, Significance, Statistics, resampled_scores, significance
from dragoman.records import Score

_Texts = Sequence[str]

# The number of sentences shown, those with the largest change.
MOST_CHANGED = 5
_LENGTH_GROUPS = 4
# Upper limits of the groups of words by their count in the training text. The last group has no limit.
_MOST_SEEN = (0, 1, 5, 20, 100)


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of both systems. `better` is "A" or "B" if the difference is significant, else ""."""

    a: Score
    b: Score
    significance: Significance
    better: str


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Sentences with sources of similar length.

    Attributes
    ----------
    shortest, longest
        The lengths of the sources, in characters.
    sentences
        The number of sentences.
    a_chrf, b_chrf
        The mean sentence chrF2 of each system, 0 to 100.
    b_wins, b_losses
        Sentences in which the chrF2 of B is higher or lower.
    """

    shortest: int
    longest: int
    sentences: int
    a_chrf: float
    b_chrf: float
    b_wins: int
    b_losses: int


@dataclass(frozen=True, slots=True)
class RarityGroup:
    """Reference words of similar frequency.

    Attributes
    ----------
    at_least, at_most
        How often the words occur in the training text. `at_most` is None for the most frequent words.
    words
        The number of these words in the references, repetitions included.
    a_found, b_found
        How many of them each system wrote in the same sentence: its recall is this divided by `words`.
    """

    at_least: int
    at_most: int | None
    words: int
    a_found: int
    b_found: int


@dataclass(frozen=True, slots=True)
class Change:
    """A sentence (`line`, from 1) that the systems translate differently, with the chrF2 of both."""

    line: int
    src: str
    reference: str
    a: str
    b: str
    a_chrf: float
    b_chrf: float


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(ShownRecord):
    """The result of comparing two systems on one test. The system with the higher chrF2 wins a sentence.

    Attributes
    ----------
    num_sentences
        The number of sentences of the test.
    metrics
        BLEU, chrF and, unless lines are too long, TER.
    b_wins, b_losses, ties
        The sentences that B wins, loses and ties. They add up to `num_sentences`.
    by_length, by_rarity
        Groups of sentences, and of words. Empty groups are left out.
    changes
        Up to five sentences with the largest difference, in either direction.
    warnings
        Reasons to doubt the scores.
    """

    num_sentences: int
    metrics: tuple[MetricComparison, ...]
    b_wins: int
    b_losses: int
    ties: int
    by_length: tuple[LengthGroup, ...]
    by_rarity: tuple[RarityGroup, ...]
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """One sentence. It calls a system better only if the difference is significant."""
        better = {name: [one.a.name for one in self.metrics if one.better == name] for name in ("A", "B")}
        found = [f"{name} is better by {_join_names(names)}" for name, names in better.items() if names]
        rest = [one.a.name for one in self.metrics if not one.better]
        said = "; ".join(found + ([f"by {_join_names(rest)} no difference is shown"] if rest else []))
        return f"{said[0].upper()}{said[1:]}."

    def _facts(self) -> Facts:
        yield "verdict", self.verdict
        for one in self.metrics:
            values = f"A {one.a.value:.2f}, B {one.b.value:.2f}, p (bootstrap) {one.significance.p_bootstrap:.3f}"
            yield one.a.name, values
        by_sentence = f"B wins {self.b_wins:,}, loses {self.b_losses:,}; {self.ties:,} are equal"
        yield "sentences", f"{self.num_sentences:,}; {by_sentence}"
        yield from (("warning", warning) for warning in self.warnings)


def compare_outputs(
    sources: _Texts,
    references: _Texts,
    a: _Texts,
    b: _Texts,
    tokenize: str = "13a",
    training_text: Iterable[str] | None = None,
) -> Comparison:
    """Compare the outputs of two systems for the same sources.

    Parameters
    ----------
    sources, references, a, b
        The test and the outputs of both systems, one line for each sentence.
    tokenize
        sacreBLEU's tokenizer, for BLEU and for words.
    training_text
        Lines in the target language, which are read once and not kept. The rarity of a word is its count in them.
        Without them, it is the count in the references.

    Raises
    ------
    DataError
        If the numbers of lines differ or there is nothing to compare.
    """
    found = [metrics.applicable_metrics(tokenize, outputs, references) for outputs in (a, b)]
    compared, warnings = [], list[tuple[str, ...]]()
    for metric, _ in zip(found[0][0], found[1][0], strict=False):
        counts = [metrics.counts_of(metric, outputs, references) for outputs in (a, b)]
        compared.append(_compare_metric(metric, *counts))
        if not warnings:  # the first metric is BLEU
            warnings = [metrics.warnings_about(*bleu, references) for bleu in zip(counts, (a, b), strict=True)]
    chrf = np.array([metrics.sentence_chrf(outputs, references) for outputs in (a, b)])
    # Rounding makes a tie of sentences whose scores differ in the last bits only.
    gains = np.sign(np.round(chrf[1] - chrf[0], 9))
    words = _words_by(metrics.all_metrics(tokenize)[0].tokenizer)
    seen = Counter(word for text in training_text or references for word in words(text))
    return Comparison(
        len(references),
        tuple(compared),
        int((gains > 0).sum()),
        int((gains < 0).sum()),
        int((gains == 0).sum()),
        _by_length(sources, chrf, gains),
        _by_rarity(references, a, b, words, seen),
        _changes(sources, references, a, b, chrf),
        tuple(dict.fromkeys(chain(found[0][1] or found[1][1], *warnings))),
    )


def _compare_metric(metric: Metric, a: Statistics, b: Statistics) -> MetricComparison:
    """Scores with intervals, and their difference. TER is an error rate, so the lower one is better."""
    resampled = resampled_scores(metric, a, b)
    found = significance(metric, a, b, resampled, TRIALS)
    rises = found.difference < 0 if isinstance(metric, TER) else found.difference > 0
    better = ("B" if rises else "A") if found.is_significant else ""
    of_a, of_b = (metrics.make_score(metric, counts, own) for counts, own in zip((a, b), resampled, strict=True))
    return MetricComparison(of_a, of_b, found, better)


def _by_length(
    sources: Sequence[str], chrf: NDArray[np.float64], gains: NDArray[np.float64]
) -> tuple[LengthGroup, ...]:
    """Groups of about equal size. Sentences of one length are in one group."""
    lengths = np.array([len(source) for source in sources])
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, _LENGTH_GROUPS + 1)[1:-1], method="lower"))
    groups = np.searchsorted(edges, lengths)
    found = []
    for group in np.unique(groups):
        rows = groups == group
        a_chrf, b_chrf = (float(one[rows].mean()) for one in chrf)
        wins, losses = int((gains[rows] > 0).sum()), int((gains[rows] < 0).sum())
        shortest, longest = int(lengths[rows].min()), int(lengths[rows].max())
        found.append(LengthGroup(shortest, longest, int(rows.sum()), a_chrf, b_chrf, wins, losses))
    return tuple(found)


def _by_rarity(
    references: _Texts, a: _Texts, b: _Texts, words: Callable[[str], list[str]], seen: Mapping[str, int]
) -> tuple[RarityGroup, ...]:
    """Count words as clipped matches, like BLEU's unigrams: an output gets no credit for repeating a word."""
    counts = np.zeros((len(_MOST_SEEN) + 1, 3), dtype=np.int64)
    for reference, *outputs in zip(references, a, b, strict=True):
        there = [Counter(words(output)) for output in outputs]
        for word, count in Counter(words(reference)).items():
            group = int(np.searchsorted(_MOST_SEEN, seen.get(word, 0)))
            counts[group] += (count, *(min(count, one[word]) for one in there))
    least, most = (0, *(seen + 1 for seen in _MOST_SEEN)), (*_MOST_SEEN, None)
    rows = zip(least, most, counts.tolist(), strict=True)
    return tuple(RarityGroup(at_least, at_most, *row) for at_least, at_most, row in rows if row[0])


def _join_names(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _words_by(tokenizer: Callable[[str], str]) -> Callable[[str], list[str]]:
    """A function that splits a text into the words that sacreBLEU counts, without punctuation."""
    return lambda text: [word for word in tokenizer(text).split() if any(map(str.isalnum, word))]


def _changes(
    sources: _Texts, references: _Texts, a: _Texts, b: _Texts, chrf: NDArray[np.float64]
) -> tuple[Change, ...]:
    order = np.argsort(-np.abs(chrf[1] - chrf[0]), kind="stable")[:MOST_CHANGED].tolist()
    return tuple(
        Change(row + 1, sources[row], references[row], a[row], b[row], float(chrf[0, row]), float(chrf[1, row]))
        for row in order
        if a[row] != b[row]
    )
