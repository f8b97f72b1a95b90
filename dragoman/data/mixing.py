"""Several corpora in one run: which pairs each epoch has.

A pair of weight 2 is taken twice as often as one of weight 1. So the share of a corpus is its weight times its pairs,
divided by the sum of these products. An epoch has as many pairs as all corpora together. Each corpus is passed through
again and again, each time in another order, so every pair is seen before one is seen twice. With equal weights, every
epoch has each pair once, as with all corpora in one file.

The first n epochs together have the exact share of each corpus, rounded. So an epoch is a pure function of the seed and
its number, and rounding errors do not add up. A corpus may be left out of epochs at the start or at the end of the run
(`MixedCorpus.epochs`). The other corpora then share these epochs.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from dragoman.data.store import Counts, Ids, Pairs

UNTAGGED_SHARE = 0.1
"""The share of the pairs of a tagged corpus that are trained on without the tag, so that translating without one works.

They change with every pass.
"""
ENDLESS = 1 << 40


@dataclass(frozen=True, slots=True)
class MixedCorpus:
    """One corpus of a mixture: the next `num_pairs` pairs of the store.

    Parameters
    ----------
    name
        Its files, for messages.
    num_pairs
        The number of its pairs, at least 1.
    weight
        How often a pair is taken, relative to the pairs of the other corpora.
    tag, mark
        The ids before the sources, if any: of the tag, which some pairs lack (`UNTAGGED_SHARE`), and the mark of
        back-translation.
    epochs
        The first epoch with the corpus, and the first one without it.
    """

    name: str
    num_pairs: int
    weight: float = 1.0
    tag: int | None = None
    mark: int | None = None
    epochs: tuple[int, int] = (0, ENDLESS)

    @property
    def controls(self) -> tuple[int, ...]:
        """The ids before the sources."""
        return tuple(one for one in (self.tag, self.mark) if one is not None)


class MixedPairs:
    """Pairs of several corpora, one corpus after the other. Implements `Pairs`.

    `src_counts` include the control tokens before the sources.

    Parameters
    ----------
    pairs
        The pairs of all corpora.
    corpora
        The corpora, in the order of the pairs. At least one is in every epoch.
    num_pairs
        The number of pairs in an epoch, apart from rounding. By default, all pairs.
    """

    def __init__(self, pairs: Pairs, corpora: Sequence[MixedCorpus], num_pairs: int | None = None) -> None:
        self.pairs, self.corpora, self.num_pairs = pairs, tuple(corpora), len(pairs) if num_pairs is None else num_pairs
        self.starts = [0, *np.cumsum([corpus.num_pairs for corpus in corpora]).tolist()]
        if self.starts[-1] != len(pairs):
            raise ValueError(f"the corpora have {self.starts[-1]} pairs, but there are {len(pairs)}")
        self.tgt_counts: Counts = pairs.tgt_counts
        self.src_counts: Counts = pairs.src_counts
        if any(corpus.controls for corpus in corpora):
            self.src_counts = pairs.src_counts.copy()
            for start, corpus in zip(self.starts, corpora, strict=False):
                self.src_counts[start : start + corpus.num_pairs] += len(corpus.controls)

    def __len__(self) -> int:
        return len(self.pairs)

    def src_ids(self, index: int) -> Ids:
        """Source ids of one pair, without control tokens."""
        return self.pairs.src_ids(index)

    def tgt_ids(self, index: int) -> Ids:
        """Target ids of one pair."""
        return self.pairs.tgt_ids(index)

    def with_epochs(self, epochs: Sequence[tuple[int, int]]) -> "MixedPairs":
        """The same pairs, with each corpus in other epochs: its first one, and the first one without it."""
        corpora = [replace(one, epochs=(first, end)) for one, (first, end) in zip(self.corpora, epochs, strict=True)]
        return MixedPairs(self.pairs, corpora, self.num_pairs)

    def controls(self, index: int, seed: int, pass_: int) -> tuple[int, ...]:
        """The control tokens before the source of a pair in one pass."""
        corpus = self.corpora[bisect_right(self.starts, index) - 1]
        if corpus.tag is not None:
            drawn = blake2b(f"{seed} {pass_} {index}".encode(), digest_size=4).digest()
            if int.from_bytes(drawn) < UNTAGGED_SHARE * 2**32:
                return corpus.controls[1:]
        return corpus.controls

    def taken(self, epoch: int) -> list[int]:
        """How many pairs of each corpus all epochs before `epoch` have together."""
        taken = [Fraction(0)] * len(self.corpora)
        for first, end in zip(self._changes, [*self._changes[1:], ENDLESS], strict=True):
            used = [one.epochs[0] <= first < one.epochs[1] for one in self.corpora]
            parts = [Fraction(one.weight) * one.num_pairs * use for one, use in zip(self.corpora, used, strict=True)]
            pairs = Fraction(self.num_pairs * max(0, min(end, epoch) - first)) / sum(parts, Fraction(0))
            taken = [before + part * pairs for before, part in zip(taken, parts, strict=True)]
        return [round(count) for count in taken]

    @cached_property
    def _changes(self) -> list[int]:
        """The epochs from which other corpora are used."""
        return sorted({0, *(epoch for one in self.corpora for epoch in one.epochs if epoch < ENDLESS)})

    def choose(self, seed: int, epoch: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The pairs of one epoch before they are shuffled: of each corpus, the next ones of its endless passes.

        Returns the indices (pairs,), in which a pair may occur several times, and the pass of each, counted from 0.
        """
        indices, passes = [], []
        limits = zip(self.corpora, self.starts, self.taken(epoch), self.taken(epoch + 1), strict=False)
        for number, (corpus, start, place, end) in enumerate(limits):
            while place < end:
                pass_, first = divmod(place, corpus.num_pairs)
                stop = min(corpus.num_pairs, first + end - place)
                order = np.arange(corpus.num_pairs, dtype=np.int32)
                if (first, stop) != (0, corpus.num_pairs):  # the order of a whole pass does not matter
                    np.random.default_rng([seed, number, pass_, 1]).shuffle(order)
                indices.append(order[first:stop] + np.int32(start))
                passes.append(np.full(stop - first, pass_, np.int32))
                place += stop - first
        return np.concatenate(indices), np.concatenate(passes)


def epoch_tokens(pairs: Pairs, epoch: int = 0) -> int:
    """The number of target tokens in an epoch, with an eos for each pair. Of several corpora, about."""
    if not isinstance(pairs, MixedPairs):
        return int(np.sum(pairs.tgt_counts, dtype=np.int64)) + len(pairs)
    taken = np.subtract(pairs.taken(epoch + 1), pairs.taken(epoch))
    limits = zip(pairs.starts, pairs.starts[1:], strict=False)
    return round(float(taken @ np.array([np.mean(pairs.tgt_counts[start:end]) + 1 for start, end in limits])))
