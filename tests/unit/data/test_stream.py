import threading
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batch import Batch, pad_ids
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import BatchStream, Position, StepBatches, StepPlan, load_batch
from dragoman.errors import ConfigError, DataError
from dragoman.records import BOS_ID, EOS_ID, PAD_ID

ragged = st.lists(st.lists(st.integers(4, 99), max_size=9), min_size=1, max_size=20)


def numbered_pairs(count: int = 60) -> InMemoryPairs:
    """Pair number i is the ids (4 + i, ...) of varying length, so that the ids of a batch identify its pairs."""
    return InMemoryPairs([[4 + i] * (1 + i % 7) for i in range(count)], [[4 + i] * (1 + i % 5) for i in range(count)])


def members(batch: Batch) -> list[int]:
    return [first - 4 for first in batch.src_ids[:, 0].tolist()]


def take(stream: BatchStream, count: int) -> list[StepBatches]:
    return [next(stream) for _ in range(count)]


@given(ragged)
@settings(deadline=None)
def test_a_batch_is_padded_rows_with_their_control_ids(rows: list[list[int]]) -> None:
    batch = load_batch(InMemoryPairs(rows, rows[::-1]), np.arange(len(rows)))
    src_ids, src_lengths = pad_ids([[*row, EOS_ID] for row in rows], PAD_ID)
    tgt_ids, tgt_lengths = pad_ids([[BOS_ID, *row, EOS_ID] for row in rows[::-1]], PAD_ID)
    for mine, expected in zip(
        (batch.src_ids, batch.src_lengths, batch.tgt_ids, batch.tgt_lengths + 1),
        (src_ids, src_lengths, tgt_ids, tgt_lengths),
        strict=True,
    ):
        assert mine.dtype == torch.int64
        assert torch.equal(mine, expected)
    assert batch.num_tgt_tokens == int((batch.labels != PAD_ID).sum())


def test_a_batch_keeps_the_order_asked_for() -> None:
    assert members(load_batch(numbered_pairs(), np.array([7, 3, 30]))) == [7, 3, 30]


def test_rows_of_narrow_ids_do_not_wrap() -> None:
    batch = Batch.from_ids([np.array([65_534], np.uint16)], [np.array([65_534], np.uint16)])
    assert batch.src_ids.tolist() == [[65_534, EOS_ID]]
    assert batch.tgt_ids.tolist() == [[BOS_ID, 65_534, EOS_ID]]


def test_every_epoch_delivers_every_pair_once_within_the_budgets() -> None:
    pairs = numbered_pairs()
    with BatchStream(pairs, StepPlan(batch_tokens=30, micro_batch_tokens=16, seed=1)) as stream:
        for epoch in (0, 1):
            seen: list[int] = []
            for step in stream:
                assert step.position.epoch == epoch
                assert step.num_tgt_tokens == sum(batch.num_tgt_tokens for batch in step.batches) <= 30
                for batch in step.batches:
                    assert max(batch.src_ids.numel(), batch.labels.numel()) <= 16
                    seen += members(batch)
                if step.ends_epoch:
                    break
            assert sorted(seen) == list(range(len(pairs)))
            assert step.following == Position(epoch + 1, 0)


def test_closing_ends_the_thread() -> None:
    before = threading.active_count()
    stream = BatchStream(numbered_pairs(), StepPlan(30, 30, seed=1, steps_ahead=1))
    assert take(stream, 2)[-1].following == Position(0, 2)
    stream.close()
    stream.close()
    assert threading.active_count() == before
    with pytest.raises(ValueError, match="closed"):
        next(stream)


def test_what_fails_in_the_thread_is_raised_where_the_step_is_asked_for() -> None:
    def encode(index: int, epoch: int) -> tuple[Sequence[int], Sequence[int]]:
        raise OSError(f"pair {index}")

    with BatchStream(numbered_pairs(), StepPlan(30, 30, seed=1), encode=encode) as stream:
        for _ in range(2):
            with pytest.raises(OSError, match="pair"):
                next(stream)


def test_other_ids_replace_the_stored_ones_and_micro_batches_still_fit() -> None:
    pairs = numbered_pairs()

    def encode(index: int, epoch: int) -> tuple[Sequence[int], Sequence[int]]:
        return np.repeat(pairs.src_ids(index), 2 + epoch).tolist(), np.repeat(pairs.tgt_ids(index), 2).tolist()

    plan = StepPlan(30, 16, seed=1)
    with BatchStream(pairs, plan) as plain, BatchStream(pairs, plan, encode=encode) as stream:
        for stored, step in zip(take(plain, 8), take(stream, 8), strict=True):
            chosen = [sorted(index for batch in each.batches for index in members(batch)) for each in (stored, step)]
            assert chosen[0] == chosen[1]
            assert step.num_tgt_tokens == sum(batch.num_tgt_tokens for batch in step.batches) > stored.num_tgt_tokens
            for batch in step.batches:
                assert max(batch.src_ids.numel(), batch.labels.numel()) <= 16


def test_other_ids_that_fit_no_micro_batch_are_not_taken() -> None:
    pairs = numbered_pairs()
    with BatchStream(pairs, StepPlan(30, 16, seed=1), encode=lambda index, epoch: ([5] * 16, [5])) as stream:
        for step in take(stream, 6):
            for batch in step.batches:
                expected = load_batch(pairs, np.array(members(batch)))
                assert torch.equal(batch.src_ids, expected.src_ids)
                assert torch.equal(batch.tgt_ids, expected.tgt_ids)


def test_limits_that_some_pair_exceeds_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"`train.batch_tokens` is 5, .* at least 6"):
        BatchStream(numbered_pairs(), StepPlan(5, 100, seed=1))
    with pytest.raises(ConfigError, match=r"`train.micro_batch_tokens` is 7, .* at least 8"):
        BatchStream(numbered_pairs(), StepPlan(100, 7, seed=1))
    with pytest.raises(DataError, match="no training pairs"):
        BatchStream(numbered_pairs(0), StepPlan(100, 100, seed=1))


def test_batches_are_pinned_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[int] = []

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor.data_ptr())
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)  # pinning needs a GPU
    with BatchStream(numbered_pairs(), StepPlan(60, 60, seed=1, steps_ahead=1)) as stream:
        plain = next(stream)
        assert not pinned
    with BatchStream(numbered_pairs(), StepPlan(60, 60, seed=1, pin_memory=True)) as stream:
        step = next(stream)
    assert len(step.batches) == len(plain.batches)
    for batch, expected in zip(step.batches, plain.batches, strict=True):
        for name in ("src_ids", "src_lengths", "tgt_ids", "tgt_lengths"):
            tensor = getattr(batch, name)
            assert tensor.data_ptr() in pinned
            assert torch.equal(tensor, getattr(expected, name))
