"""Steps do not depend on the memory, on where training stopped, or on the number of ranks."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batch import Batch
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import BatchStream, Position, StepBatches, StepPlan

lengths = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=60)


def numbered(sizes: list[tuple[int, int]]) -> InMemoryPairs:
    src, tgt = ([[4 + index] * size[side] for index, size in enumerate(sizes)] for side in (0, 1))
    return InMemoryPairs(src, tgt)


def take(stream: BatchStream, count: int) -> list[StepBatches]:
    with stream:
        return [next(stream) for _ in range(count)]


def rows(step: StepBatches) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the pairs of a step without padding, in an order that does not depend on the batches."""
    return sorted(
        (tuple(src[:src_length].tolist()), tuple(tgt[: tgt_length + 1].tolist()))
        for batch in step.batches
        for src, src_length, tgt, tgt_length in zip(
            batch.src_ids, batch.src_lengths.tolist(), batch.tgt_ids, batch.tgt_lengths.tolist(), strict=True
        )
    )


def equal(one: Batch, other: Batch) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("src_ids", "src_lengths", "tgt_ids", "tgt_lengths")
    )


@settings(deadline=None, max_examples=50)
@given(lengths, st.integers(16, 100), st.integers(16, 100), st.integers(16, 2000), st.integers(0, 2**31 - 1))
def test_memory_does_not_change_the_steps(
    sizes: list[tuple[int, int]], batch_tokens: int, small: int, large: int, seed: int
) -> None:
    pairs = numbered(sizes)
    one, other = (take(BatchStream(pairs, StepPlan(batch_tokens, micro, seed)), 6) for micro in (small, large))
    assert [rows(step) for step in one] == [rows(step) for step in other]
    assert [step.num_tgt_tokens for step in one] == [step.num_tgt_tokens for step in other]
    assert all(step.num_tgt_tokens <= batch_tokens for step in one)
    for micro, steps in ((small, one), (large, other)):
        assert all(max(b.src_ids.numel(), b.labels.numel()) <= micro for step in steps for b in step.batches)


@settings(deadline=None, max_examples=50)
@given(lengths, st.integers(16, 100), st.integers(0, 12), st.integers(0, 2**31 - 1))
def test_a_resumed_stream_delivers_exactly_the_remaining_batches(
    sizes: list[tuple[int, int]], batch_tokens: int, done: int, seed: int
) -> None:
    pairs = numbered(sizes)
    whole = take(BatchStream(pairs, StepPlan(batch_tokens, 40, seed)), done + 5)
    start = whole[done - 1].following if done else Position()
    resumed = take(BatchStream(pairs, StepPlan(batch_tokens, 40, seed), start=start), 5)
    for expected, step in zip(whole[done:], resumed, strict=True):
        assert (step.position, step.following) == (expected.position, expected.following)
        assert len(step.batches) == len(expected.batches)
        assert all(equal(*both) for both in zip(step.batches, expected.batches, strict=True))


@settings(deadline=None, max_examples=20)
@given(lengths, st.integers(16, 100), st.integers(1, 4), st.integers(0, 2**31 - 1))
def test_the_ranks_together_compute_the_same_steps(
    sizes: list[tuple[int, int]], batch_tokens: int, world_size: int, seed: int
) -> None:
    pairs = numbered(sizes)
    alone = take(BatchStream(pairs, StepPlan(batch_tokens, 20, seed)), 4)
    streams = [
        BatchStream(pairs, StepPlan(batch_tokens, 20, seed, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    ranks = [take(stream, 4) for stream in streams]
    for expected, *shares in zip(alone, *ranks, strict=True):
        assert sorted(row for share in shares for row in rows(share)) == rows(expected)
        assert {share.num_tgt_tokens for share in shares} == {expected.num_tgt_tokens}
