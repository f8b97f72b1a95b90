"""Minimum Bayes risk decoding: choose the sample that is most similar to all samples.

Each sample is scored by its mean utility with every sample, itself included, as the reference. The utility is sentence
chrF2 as sacreBLEU computes it.

References
----------
Eikema & Aziz (2020), https://arxiv.org/abs/2005.10283, and (2022), https://arxiv.org/abs/2108.04718.
Popović (2015), "chrF: character n-gram F-score for automatic MT evaluation".
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dragoman.records import Hypothesis
from dragoman.text.tokenization.tokenizer import Tokenizer

_ORDERS = 6
_BETA_SQUARED = 4.0
_Matrix = npt.NDArray[np.float64]
_Numbers = npt.NDArray[np.int64]


def choose_least_risk(samples: Sequence[Hypothesis], tokenizer: Tokenizer, n_best: int) -> list[Hypothesis]:
    """The `n_best` samples of one source with the highest expected chrF2, which becomes their `score`, best first.

    Samples with the same text all count as references, but only one of them is returned.
    """
    texts = [tokenizer.detokenize(hypothesis.ids) for hypothesis in samples]
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    counts = np.array([texts.count(text) for text in first], np.float64)
    utilities = pairwise_chrf(list(first)) @ counts / max(1, len(texts))
    ranked = sorted(zip(utilities.tolist(), first.values(), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [replace(samples[place], score=utility) for utility, place in ranked[:n_best]]


def pairwise_chrf(texts: Sequence[str]) -> _Matrix:
    """chrF2 (N, N), 0 to 100, of text i as translation with text j as reference.

    The k-th occurrence of an n-gram in a text counts as a separate n-gram. The clipped number of common n-grams is then
    the size of an intersection, and one matrix product counts all pairs.
    """
    characters = [np.fromiter(map(ord, "".join(text.split())), np.int64) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(row) for row in characters])
    symbols = _number_ngrams(np.concatenate(characters)) if texts else np.empty(0, np.int64)
    size = symbols.max(initial=0) + 1
    starts, grams = np.arange(len(symbols)), symbols
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order in range(1, _ORDERS + 1):
        if order > 1:
            inside = starts + order <= len(symbols)
            inside[inside] = owners[starts[inside] + order - 1] == owners[starts[inside]]
            starts = starts[inside]
            grams = _number_ngrams(grams[inside] * size + symbols[starts + order - 1])
        shared, totals = _count_shared(owners[starts], grams, len(texts))
        both = np.outer(totals > 0, totals > 0)
        precision += np.divide(shared, totals[:, None], where=both, out=np.zeros_like(shared))
        recall += np.divide(shared, totals[None, :], where=both, out=np.zeros_like(shared))
        orders += both
    orders = np.maximum(orders, 1)
    precision, recall = precision / orders, recall / orders
    weighted = _BETA_SQUARED * precision + recall
    return np.divide(
        100 * (1 + _BETA_SQUARED) * precision * recall, weighted, where=weighted > 0, out=np.zeros_like(weighted)
    )


def _count_shared(owners: _Numbers, grams: _Numbers, count: int) -> tuple[_Matrix, _Matrix]:
    """Number of n-grams that each two texts have in common (N, N), and of n-grams in each text (N,).

    `owners` has the index of the text of each n-gram.
    """
    order = np.lexsort((grams, owners))
    owners, grams = owners[order], grams[order]
    places = np.arange(len(grams))
    begins = np.ones(len(grams), np.bool_)
    begins[1:] = (grams[1:] != grams[:-1]) | (owners[1:] != owners[:-1])
    occurrence = places - np.maximum.accumulate(np.where(begins, places, 0))
    columns = _number_ngrams(grams * (occurrence.max(initial=0) + 1) + occurrence)
    has = np.zeros((count, columns.max(initial=-1) + 1), np.float32)
    has[owners, columns] = 1.0
    return (has @ has.T).astype(np.float64), has.sum(1, dtype=np.float64)


def _number_ngrams(values: _Numbers) -> _Numbers:
    """Replace values by numbers from 0 on, without gaps. Equal values get equal numbers."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)
