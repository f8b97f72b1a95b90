"""A stream of training steps: padded batches built ahead in a background thread, from any position in any epoch."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.data.batch import Batch
from dragoman.data.batching import PADDING_SLACK, check_budget, epoch_batches, micro_batches, smallest_micro_batch
from dragoman.data.pairs import Ids, Pairs
from dragoman.errors import ConfigError, DataError

Encode: TypeAlias = Callable[[int, int], tuple[Sequence[int], Sequence[int]]]
"""``encode(index, epoch) -> (src_ids, tgt_ids)``: a pure function that replaces the stored ids of a pair."""


@dataclass(frozen=True, slots=True)
class Position:
    """A step in the training order; both count from 0. It is the whole state of a `BatchStream`."""

    epoch: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The parameters that determine the pairs of each step and its micro-batches (see `batching`).

    A larger `padding_slack` gives fewer and larger micro-batches, which suits devices with a high cost per launch.
    """

    batch_tokens: int
    micro_batch_tokens: int
    seed: int
    padding_slack: int = PADDING_SLACK


@dataclass(frozen=True, slots=True)
class Delivery:
    """Which micro-batches of a step this process builds, and how.

    With `world_size` above 1 every rank builds its share of each step's micro-batches, possibly none. `steps_ahead` is
    the number of steps built in advance. `pin_memory` puts the batches in pinned memory, for asynchronous copies to a
    GPU.
    """

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

    @property
    def epochs_before(self) -> float:
        """The number of epochs done before this step, with a fraction for the current epoch."""
        return self.position.epoch + self.position.step / self.steps_in_epoch

    @property
    def epochs_passed(self) -> float:
        """The number of epochs done after this step, with a fraction for the current epoch."""
        return self.epochs_before + 1 / self.steps_in_epoch


def load_batch(pairs: Pairs, indices: npt.NDArray[np.integer]) -> Batch:
    """The given pairs of a data set as a `Batch`, in the order of `indices`."""
    chosen = indices.tolist()
    return Batch.from_ids([pairs.src_ids(index) for index in chosen], [pairs.tgt_ids(index) for index in chosen])


class BatchStream(Iterator[StepBatches]):
    """An endless iterator over steps, epoch after epoch, from `start` on. A new stream from `position` continues it.

    Close the stream, or use it in a `with` block. `next` raises an error that occurs in the background thread.

    Parameters
    ----------
    pairs
        The data set.
    plan
        Determines the pairs of each step and its micro-batches.
    start
        The position of the first step.
    encode
        Replaces the stored ids (BPE dropout, augmentation). The stored lengths still determine the pairs of a step, so
        its target tokens may exceed `batch_tokens` if the new ids are longer. A pair that would exceed
        `micro_batch_tokens` keeps its stored ids.
    delivery
        The share of this process, and how batches are built.

    Raises
    ------
    ConfigError
        If a pair exceeds `batch_tokens` or `micro_batch_tokens`.
    DataError
        If there are no pairs.
    """

    def __init__(
        self,
        pairs: Pairs,
        plan: StepPlan,
        start: Position = Position(),
        encode: Encode | None = None,
        delivery: Delivery = Delivery(),
    ) -> None:
        if not len(pairs):
            raise DataError("There are no training pairs. Check the counts of cleaning and the corpus files.")
        check_budget(pairs, plan.batch_tokens)
        if plan.micro_batch_tokens < (needed := smallest_micro_batch(pairs)):
            raise ConfigError(
                f"`train.micro_batch_tokens` is {plan.micro_batch_tokens}, but the longest side of a training pair has "
                f"{needed} tokens. Set it to at least {needed}, or lower `data.max_tokens`."
            )
        self._pairs, self._plan, self._encode, self._delivery = pairs, plan, encode, delivery
        self.position = start
        self._closing = threading.Event()
        self._ready: queue.Queue[StepBatches | BaseException] = queue.Queue(maxsize=delivery.steps_ahead)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(start,), name="batches", daemon=True)
        self._thread.start()

    def __enter__(self) -> "BatchStream":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __next__(self) -> StepBatches:
        if self._closing.is_set():
            raise ValueError("the batch stream is closed")
        if self._failure is None:
            item = self._ready.get()
            if isinstance(item, StepBatches):
                self.position = item.following
                return item
            self._failure = item
        raise self._failure

    def close(self) -> None:
        """End the thread. Steps built ahead are dropped; `position` stays at the first step not delivered."""
        self._closing.set()
        while self._thread.is_alive():
            with suppress(queue.Empty):
                self._ready.get(timeout=0.01)

    def _work(self, start: Position) -> None:
        try:
            for step in self._steps(start):
                if not self._put(step):
                    return
        except BaseException as error:  # raised again by `__next__` in the other thread
            self._put(error)

    def _put(self, item: StepBatches | BaseException) -> bool:
        """Wait until the queue has space. Returns False if the stream is closed meanwhile."""
        while not self._closing.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _steps(self, start: Position) -> Iterator[StepBatches]:
        position = start
        while True:
            steps = epoch_batches(self._pairs, self._plan.batch_tokens, self._plan.seed, position.epoch)
            for index in range(position.step, len(steps)):
                position = Position(position.epoch, index)
                is_last = index + 1 == len(steps)
                following = Position(position.epoch + 1) if is_last else Position(position.epoch, index + 1)
                yield self._build(steps[index], position, following, len(steps))
            position = Position(position.epoch + 1)
            del steps

    def _build(
        self, indices: npt.NDArray[np.int32], position: Position, following: Position, steps_in_epoch: int
    ) -> StepBatches:
        rows = [self._rows(index, position.epoch) for index in indices.tolist()]
        src_lengths, tgt_lengths = ([len(row[side]) for row in rows] for side in (0, 1))
        cuts = micro_batches(src_lengths, tgt_lengths, self._plan.micro_batch_tokens, self._plan.padding_slack)
        delivery = self._delivery
        batches = tuple(
            Batch.from_ids([rows[row][0] for row in chosen], [rows[row][1] for row in chosen])
            for chosen in (cut.tolist() for cut in cuts[delivery.rank :: delivery.world_size])
        )
        if delivery.pin_memory:
            batches = tuple(batch.pin_memory() for batch in batches)
        return StepBatches(position, following, steps_in_epoch, batches, sum(tgt_lengths) + len(rows), len(rows))

    def _rows(self, index: int, epoch: int) -> tuple[Ids, Ids]:
        if self._encode is not None:
            src, tgt = self._encode(index, epoch)
            if max(len(src), len(tgt)) < self._plan.micro_batch_tokens:
                return np.asarray(src, np.int64), np.asarray(tgt, np.int64)
        return self._pairs.src_ids(index), self._pairs.tgt_ids(index)
