"""What engines are given and what they return, and the rules of every search.

An engine works on ids. It gets sources and pairs, in batches of similar length, and returns hypotheses. It does not
read the text of a source (`segment`).

All searches follow the same rules: forbidden tokens, limits of the length, and the length penalty. A hypothesis of n
tokens (eos included) has score = log_prob / penalty(n). Without a penalty, search prefers short outputs, because every
further token lowers log_prob. Both penalties are non-decreasing in n. The stopping rule of beam search needs this.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dragoman.config import InferenceSettings
from dragoman.records import EOS_ID, NEVER_WRITTEN, Hypothesis
from dragoman.text.tokenization.sentence_splitting import Segment

_MIN_SHARE_TOKENS = 512
"""The smallest batch, in padded source tokens times rows, that is worth a separate batch for an idle thread."""
_PAIR_TOKENS = 1024
"""Padded tokens of a side in one batch of a forced pass. More do not make a pass faster, and take more memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """One segment of a text, as the search sees it.

    Attributes
    ----------
    name
        Unique name in the input. The random numbers of sampling depend on it.
    ids
        Source token ids without eos. A source without ids is not searched.
    prefix
        Target ids that the translation must start with.
    segment
        The text of the segment, and the white space after it. Searches do not read it.
    """

    name: str
    ids: list[int]
    prefix: list[int] = field(default_factory=list)
    segment: Segment = field(default=Segment("", ""))

    @property
    def length(self) -> int:
        """Source tokens, eos included."""
        return len(self.ids) + 1


IdPair = tuple[Sequence[int], Sequence[int]]
"""Source ids and target ids of one pair, both without control ids."""


IdStream = Generator[list[int], None, list[Hypothesis]]
"""Yields the ids that the best output certainly starts with, after each step. Returns the hypotheses, best first."""


@dataclass(frozen=True, slots=True)
class ForcedPass:
    """What a model computes for one pair of n source tokens and m target tokens. The target is forced.

    Attributes
    ----------
    log_probs
        Natural log-probability (m + 1,) of each target token and of eos, given the tokens before it.
    attention
        Cross-attention (H, m + 1, n + 1) of the layer that was requested, else (0, 0, 0). Queries are bos and the
        target tokens, and keys are the source tokens and eos. Each row sums to 1.
    """

    log_probs: npt.NDArray[np.float32]
    attention: npt.NDArray[np.float32]


class Search(Protocol):
    """Finds translations."""

    def search(self, sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        """Find the hypotheses of every source, best first. A source without ids has none."""


@runtime_checkable
class StreamingSearch(Search, Protocol):
    """A `Search` that can report its progress. The translations of others are streamed in one part."""

    def stream(self, source: Source, settings: InferenceSettings) -> IdStream:
        """Search one source, which has ids, by beam search. Yields the certain start of its output after each step."""


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


def token_batches(
    sources: Sequence[Source], rows_per_sentence: int, batch_tokens: int, workers: int = 1
) -> Iterator[list[int]]:
    """Yield batches of sources of similar length, as indices. Sources without ids are left out.

    The longest sources come first, so that memory runs out in the first batch or never. If the sources do not fill one
    batch for each worker, batches are smaller.

    Parameters
    ----------
    sources
        All sources.
    rows_per_sentence
        Hypotheses of each source.
    batch_tokens
        Maximum of padded source tokens times rows in a batch. A source that exceeds it alone gets its own batch.
    workers
        Number of batches that are searched at once.
    """
    costs = [(source.length * rows_per_sentence, place) for place, source in enumerate(sources) if source.ids]
    share = sum(cost for cost, _ in costs) // workers
    budget = min(batch_tokens, max(share, _MIN_SHARE_TOKENS)) if workers > 1 else batch_tokens
    return _cut_batches(sorted(costs, key=lambda one: -one[0]), budget)


def pair_batches(pairs: Sequence[IdPair]) -> Iterator[list[int]]:
    """Yield batches of pairs of similar length, as indices, shortest first.

    Rows times the tokens of the longest side are at most `_PAIR_TOKENS`. A pair with more gets its own batch.
    """
    costs = [(max(map(len, pair)), place) for place, pair in enumerate(pairs)]
    return _cut_batches(sorted(costs), _PAIR_TOKENS)


def _cut_batches(costs: Sequence[tuple[int, int]], budget: int) -> Iterator[list[int]]:
    """Batches of consecutive indices, in which their number times their largest cost is at most `budget`.

    `costs` are sorted pairs of cost and index. An index that exceeds the budget alone gets its own batch.
    """
    batch: list[int] = []
    first = 0
    for cost, place in costs:
        if batch and (len(batch) + 1) * max(first, cost) > budget:
            yield batch
            batch = []
        if not batch:
            first = cost
        batch.append(place)
    if batch:
        yield batch
