"""A stream of training steps: padded batches built ahead in a background thread, from any position in any epoch."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.data.batch import Batch
from dragoman.data.batching import (
    PADDING_SLACK,
    EpochBatches,
    check_budget,
    epoch_batches,
    micro_batches,
    smallest_micro_batch,
)
from dragoman.data.mixing import MixedPairs
from dragoman.data.store import Ids, Pairs
from dragoman.errors import ConfigError, DataError

Encode: TypeAlias = Callable[[int, int], tuple[Sequence[int], Sequence[int]]]
"""``encode(index, pass) -> (src_ids, tgt_ids)``: a pure function that replaces the stored ids of a pair.

The number of a pass is that of the epoch, unless several corpora are mixed.
"""


@dataclass(frozen=True, slots=True)
class Position:
    """A step in the training order; both count from 0. It is the whole state of a `BatchStream`."""

    epoch: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The parameters that determine the pairs of each step and its micro-batches (see `batching`).

    A larger `padding_slack` gives fewer and larger micro-batches, which suits devices with a high cost per launch. With
    `world_size` above 1 every rank builds its share of each step's micro-batches, possibly none. `steps_ahead` is the
    number of steps built in advance. `pin_memory` puts the batches in pinned memory, for asynchronous copies to a GPU.
    """

    batch_tokens: int
    micro_batch_tokens: int
    seed: int
    padding_slack: int = PADDING_SLACK
    rank: int = 0
    world_size: int = 1
    steps_ahead: int = 4
    pin_memory: bool = False


@dataclass(frozen=True, slots=True)
class StepBatches:
    """The micro-batches of one optimizer step.

    `position` is the position of this step, `following` that of the next, where a resumed run continues.
    `num_tgt_tokens` and `num_sentences` count the labels and sentences of the whole step, on all ranks. The loss is
    divided by `num_tgt_tokens`.
    """

    position: Position
    following: Position
    steps_in_epoch: int
    batches: tuple[Batch, ...]
    num_tgt_tokens: int
    num_sentences: int

    @property
    def ends_epoch(self) -> bool:
        """True for the last step of an epoch."""
        return self.following.epoch != self.position.epoch


def load_batch(pairs: Pairs, indices: npt.NDArray[np.integer]) -> Batch:
    """The given pairs of a data set as a `Batch`, in the order of `indices`."""
    chosen = indices.tolist()
    return Batch.from_ids([pairs.src_ids(index) for index in chosen], [pairs.tgt_ids(index) for index in chosen])


class BatchStream(Iterator[StepBatches]):
    """An endless iterator over steps, epoch after epoch, from `start` on.

    A new stream from `following` of the last step continues it.

    Close the stream, or use it in a `with` block. `next` raises an error that occurs in the background thread.

    Parameters
    ----------
    pairs
        The data set.
    plan
        Determines the pairs of each step and its micro-batches, and the share of this process.
    start
        The position of the first step.
    encode
        Replaces the stored ids (BPE dropout, augmentation). The stored lengths still determine the pairs of a step, so
        its target tokens may exceed `batch_tokens` if the new ids are longer. A pair that would exceed
        `micro_batch_tokens` keeps its stored ids.

    Raises
    ------
    ConfigError
        If a pair exceeds `batch_tokens` or `micro_batch_tokens`.
    DataError
        If there are no pairs.
    """

    def __init__(
        self, pairs: Pairs, plan: StepPlan, start: Position = Position(), encode: Encode | None = None
    ) -> None:
        if not len(pairs):
            raise DataError("There are no training pairs. Check the counts of cleaning and the corpus files.")
        check_budget(pairs, plan.batch_tokens)
        if plan.micro_batch_tokens < (needed := smallest_micro_batch(pairs)):
            raise ConfigError(
                f"`train.micro_batch_tokens` is {plan.micro_batch_tokens}, but the longest side of a training pair has "
                f"{needed} tokens. Set it to at least {needed}, or lower `data.max_tokens`."
            )
        self._pairs, self._plan, self._encode = pairs, plan, encode
        self._mixed = pairs if isinstance(pairs, MixedPairs) else None
        self._thread = ThreadPoolExecutor(1, "batches")
        self._steps = self._build_steps(start)
        self._ahead = deque(self._thread.submit(next, self._steps) for _ in range(plan.steps_ahead))

    def __enter__(self) -> "BatchStream":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __next__(self) -> StepBatches:
        if not self._ahead:
            raise ValueError("the batch stream is closed")
        step = self._ahead[0].result()  # a step that failed stays the next one
        self._ahead.append(self._thread.submit(next, self._steps))
        self._ahead.popleft()
        return step

    def close(self) -> None:
        """End the thread. Steps built ahead are dropped."""
        self._ahead.clear()
        self._thread.shutdown(cancel_futures=True)

    def _build_steps(self, start: Position) -> Iterator[StepBatches]:
        epoch, first = start.epoch, start.step
        while True:
            steps = epoch_batches(self._pairs, self._plan.batch_tokens, self._plan.seed, epoch)
            for index in range(first, len(steps)):
                following = Position(epoch, index + 1) if index + 1 < len(steps) else Position(epoch + 1)
                yield self._build(self._rows(steps, index), Position(epoch, index), following, len(steps))
            epoch, first = epoch + 1, 0
            del steps

    def _build(
        self, rows: Sequence[tuple[Ids, Ids]], position: Position, following: Position, steps_in_epoch: int
    ) -> StepBatches:
        src_counts, tgt_counts = ([len(row[side]) for row in rows] for side in (0, 1))
        plan = self._plan
        cuts = micro_batches(src_counts, tgt_counts, plan.micro_batch_tokens, plan.padding_slack)
        batches = tuple(
            Batch.from_ids([rows[row][0] for row in cut], [rows[row][1] for row in cut])
            for cut in (each.tolist() for each in cuts[plan.rank :: plan.world_size])
        )
        if plan.pin_memory:
            batches = tuple(batch.pin_memory() for batch in batches)
        return StepBatches(position, following, steps_in_epoch, batches, sum(tgt_counts) + len(rows), len(rows))

    def _rows(self, steps: EpochBatches, step: int) -> list[tuple[Ids, Ids]]:
        """The ids of the pairs of a step."""
        indices, src_ids, tgt_ids = steps[step].tolist(), self._pairs.src_ids, self._pairs.tgt_ids
        if self._encode is None and self._mixed is None:
            return [(src_ids(index), tgt_ids(index)) for index in indices]
        return list(map(self._row, indices, steps.passes_of(step).tolist()))

    def _row(self, index: int, pass_: int) -> tuple[Ids, Ids]:
        """The ids of a pair in one pass, with the control tokens before its source."""
        controls = self._mixed.controls(index, self._plan.seed, pass_) if self._mixed is not None else ()
        if self._encode is not None:
            src, tgt = self._encode(index, pass_)
            if max(len(controls) + len(src), len(tgt)) < self._plan.micro_batch_tokens:
                return np.asarray((*controls, *src), np.int64), np.asarray(tgt, np.int64)
        src_ids = self._pairs.src_ids(index)
        if controls:
            src_ids = np.concatenate((np.asarray(controls, np.int64), src_ids))
        return src_ids, self._pairs.tgt_ids(index)
