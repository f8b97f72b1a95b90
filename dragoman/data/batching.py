"""Choose the pairs of each optimizer step and cut steps into micro-batches. Indices only, no tensors.

A *step* has at most `batch_tokens` target tokens (including eos), whatever fits into memory. Its pairs depend only on
(seed, epoch, batch_tokens), and on the weights of several corpora (`mixing`). It is computed in *micro-batches*, which
have a limit of padded positions.

The pairs of an epoch are shuffled, sorted by length, and cut into groups of 1/`GROUPS_PER_STEP` of a step. The groups
are shuffled and packed into steps. So a step mixes lengths but computes little padding. Sentences of one length alone
would bias the gradient (Morishita et al. 2017 compare such orders).
"""

import mmap
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.data.mixing import MixedPairs
from dragoman.data.store import Counts, Pairs
from dragoman.errors import ConfigError

GROUPS_PER_STEP = 4
"""Groups of similar length per step. More groups mix lengths better; fewer give larger micro-batches, less padding.

With 8 groups, the micro-batches of a step of 4,096 tokens have about 750 target positions. CPUs compute 512 to 2,048
positions at once about equally fast, and 4,096 more slowly.
"""

PADDING_SLACK = 220
PADDING_SHARE = 0.04
"""A micro-batch may have `PADDING_SLACK` padding positions plus this share of all its positions, on both sides.

On a CPU, a micro-batch more takes as long as some hundred positions. Lengths vary most with BPE dropout.
"""

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class EpochBatches:
    """The steps of one epoch: `epoch[k]` returns the pair indices of step k in constant time.

    Parameters
    ----------
    order : (pairs,)
        The indices of all pairs in the order of the epoch, int32.
    ends : (steps,)
        The end of each step in that order, int64.
    passes : (pairs,)
        The number of times that each pair was seen before, in that order, int32.
    """

    order: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    passes: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, step: int) -> npt.NDArray[np.int32]:
        return self.order[self._rows(step)]

    def passes_of(self, step: int) -> npt.NDArray[np.int32]:
        """Find out how often the pairs of a step were seen before.

        Parameters
        ----------
        step : int
            Number of the step in the epoch, counted from 0.

        Returns
        -------
        numpy.ndarray
            The number of earlier passes of each pair, int32.
        """
        return self.passes[self._rows(step)]

    def _rows(self, step: int) -> slice:
        if not 0 <= step < len(self.ends):
            raise IndexError(f"step {step} of {len(self.ends)}")
        return slice(int(self.ends[step - 1]) if step else 0, int(self.ends[step]))


def epoch_batches(pairs: Pairs, batch_tokens: int, seed: int, epoch: int) -> EpochBatches:
    """All pairs, each once, in steps of at most `batch_tokens` target tokens. A pure function of its arguments.

    It needs 12 bytes per pair while it runs, and 4 afterwards. With several corpora (`MixedPairs`) the weights decide
    how often each pair occurs, and it needs 28 and 8 bytes.

    Parameters
    ----------
    pairs : Pairs
        The pairs: `InMemoryPairs`, the stored pairs of a run, or the mixed pairs of several corpora.
    batch_tokens : int
        Limit for the target tokens of a step, with an eos for each pair.
    seed : int
        Seed of the order.
    epoch : int
        Number of the epoch, counted from 0. Each epoch has another order.

    Returns
    -------
    EpochBatches

    Raises
    ------
    ConfigError
        If a single pair exceeds the limit.
    """
    check_budget(pairs, batch_tokens)
    random = np.random.default_rng([seed, epoch])
    chosen = pairs.choose(seed, epoch) if isinstance(pairs, MixedPairs) else None
    src_counts, tgt_counts = pairs.src_counts, pairs.tgt_counts
    if chosen is not None:
        src_counts, tgt_counts = src_counts[chosen[0]], tgt_counts[chosen[0]]
    order = _sorted_shuffle(src_counts, tgt_counts, random)
    group_ends, group_tokens = _cut_groups(order, tgt_counts, max(1, batch_tokens // GROUPS_PER_STEP), random)
    group_order = array("i", range(len(group_ends)))
    random.shuffle(np.frombuffer(group_order, np.int32) if group_order else np.empty(0))
    shuffled = _allocate_returnable(len(order), np.int32)
    ends = array("q")
    position = tokens = 0
    for group in group_order:
        if tokens + group_tokens[group] > batch_tokens:
            ends.append(position)
            tokens = 0
        start, end = group_ends[group - 1] if group else 0, group_ends[group]
        shuffled[position : position + end - start] = order[start:end]
        position += end - start
        tokens += group_tokens[group]
    if position:
        ends.append(position)
    if chosen is None:
        return EpochBatches(shuffled, np.array(ends, np.int64), np.broadcast_to(np.int32(epoch), len(shuffled)))
    del src_counts, tgt_counts, order
    indices, passes = chosen
    return EpochBatches(indices[shuffled], np.array(ends, np.int64), passes[shuffled])


def check_budget(pairs: Pairs, batch_tokens: int) -> None:
    """Raise ConfigError if the longest target with its eos exceeds `batch_tokens`."""
    longest = int(pairs.tgt_counts.max(initial=-1)) + 1
    if longest > batch_tokens:
        raise ConfigError(
            f"`train.batch_tokens` is {batch_tokens}, but the longest training target has {longest} tokens. "
            f"Set it to at least {longest}, or `data.max_tokens` to at most {max(1, batch_tokens - 1)}."
        )


def micro_batches(
    src_counts: npt.ArrayLike, tgt_counts: npt.ArrayLike, micro_batch_tokens: int, padding_slack: int = PADDING_SLACK
) -> list[npt.NDArray[np.int64]]:
    """Cut a step into micro-batches of similar length.

    Parameters
    ----------
    src_counts, tgt_counts : (rows,)
        Number of ids of each source and target, without eos.
    micro_batch_tokens
        Limit for the padded positions on either side: rows times the longest row with eos. A single row that exceeds
        it is a micro-batch alone; `smallest_micro_batch` returns a limit that avoids this.
    padding_slack
        At most ``padding_slack + PADDING_SHARE * positions`` positions on both sides are padding.

    Returns
    -------
    list of numpy.ndarray
        The rows of each micro-batch, shortest targets first.
    """
    src, tgt = (np.asarray(lengths, np.int64) + 1 for lengths in (src_counts, tgt_counts))
    order = np.lexsort((np.where(tgt % 2 == 0, src, -src), tgt))
    src, tgt = src[order], tgt[order]
    pieces = []
    start = 0
    while start < len(order):
        stop = min(len(order), start + max(1, micro_batch_tokens // int(tgt[start])))
        rows = np.arange(1, stop - start + 1)
        src_positions = rows * np.maximum.accumulate(src[start:stop])
        tgt_positions = rows * tgt[start:stop]
        padded = src_positions + tgt_positions
        padding = padded - np.cumsum(src[start:stop] + tgt[start:stop])
        fits = np.maximum(src_positions, tgt_positions) <= micro_batch_tokens
        fits &= padding <= padding_slack + PADDING_SHARE * padded
        size = int(np.flatnonzero(fits)[-1]) + 1 if fits.any() else 1
        pieces.append(order[start : start + size])
        start += size
    return pieces


def smallest_micro_batch(pairs: Pairs) -> int:
    """The smallest `micro_batch_tokens` that fits every pair: the longest side with its eos."""
    return 1 + max(int(lengths.max(initial=0)) for lengths in (pairs.src_counts, pairs.tgt_counts))


def _sorted_shuffle(src_counts: Counts, tgt_counts: Counts, random: np.random.Generator) -> npt.NDArray[np.int32]:
    """All indices sorted by target length, then source length, with ties in random order.

    Odd and even target lengths sort the source lengths in opposite directions, so that neighbours stay similar where
    one target length ends and the next starts. One in-place sort of integers that combine both lengths and the
    position in the shuffle.
    """
    order = _allocate_returnable(len(tgt_counts), np.int32)
    for start in range(0, len(order), _ROWS_AT_ONCE):
        order[start : start + _ROWS_AT_ONCE] = np.arange(start, min(start + _ROWS_AT_ONCE, len(order)))
    random.shuffle(order)
    keys = _allocate_returnable(len(order), np.uint64)
    for start in range(0, len(order), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        tgt = np.minimum(tgt_counts[order[rows]], 0xFFFF).astype(np.uint64)
        src = np.minimum(src_counts[order[rows]], 0xFFFF).astype(np.uint64)
        src = np.where(tgt % 2 == 0, np.uint64(0xFFFF) - src, src)
        positions = np.arange(start, start + len(src), dtype=np.uint64)
        keys[rows] = tgt << np.uint64(48) | src << np.uint64(32) | positions
    keys.sort()
    for start in range(0, len(order), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        keys[rows] = order[(keys[rows] & np.uint64(0xFFFFFFFF)).astype(np.int64)]
    order[:] = keys
    return order


def _cut_groups(
    order: npt.NDArray[np.int32], tgt_counts: Counts, group_tokens: int, random: np.random.Generator
) -> "tuple[array[int], array[int]]":
    """The end of each group of consecutive pairs in `order`, and the target tokens of each group.

    A group has at most `group_tokens`, or one longer pair. The size of the first group is random, so that the borders
    differ from epoch to epoch.
    """
    ends, tokens = array("q"), array("q")
    start, budget = 0, int(random.integers(1, group_tokens, endpoint=True))
    while start < len(order):
        shortest = min(int(tgt_counts[order[start]]), 0xFFFF) + 1
        sums = np.cumsum(tgt_counts[order[start : start + max(1, budget // shortest)]].astype(np.int64) + 1)
        size = max(1, int(np.searchsorted(sums, budget, side="right")))
        start, budget = start + size, group_tokens
        ends.append(start)
        tokens.append(int(sums[size - 1]))
    return ends, tokens


def _allocate_returnable(rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array whose memory returns to the operating system when it is freed.

    The C library keeps the memory of arrays of a few megabytes, which fragments more with every epoch.
    """
    num_bytes = rows * np.dtype(dtype).itemsize
    if not num_bytes or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(rows, dtype)
    return np.frombuffer(mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype)
