import numpy as np
import pytest

from dragoman.data.store import InMemoryPairs, copy_task
from dragoman.errors import ConfigError, DataError


def rows(pairs: InMemoryPairs) -> list[tuple[int, ...]]:
    return [tuple(pairs.src_ids(index).tolist()) for index in range(len(pairs))]


def test_targets_are_their_sources_and_held_out_ones_are_new() -> None:
    task = copy_task(400, 100, seed=1)
    assert (len(task.train), len(task.held_out), task.vocab_size) == (400, 100, 15)
    assert len({*rows(task.train), *rows(task.held_out)}) == 500
    for pairs in (task.train, task.held_out):
        assert all(np.array_equal(pairs.src_ids(index), pairs.tgt_ids(index)) for index in range(len(pairs)))
        assert set(pairs.src_counts.tolist()) == set(pairs.tgt_counts.tolist()) == {10}
    assert {symbol for row in rows(task.train) for symbol in row} == set(range(4, 15))


def test_the_seed_decides() -> None:
    first, again, other = (copy_task(50, 5, seed) for seed in (1, 1, 2))
    assert rows(first.train) == rows(again.train) != rows(other.train)


def test_all_sequences_can_be_asked_for_but_not_more() -> None:
    assert len(set(rows(copy_task(6, 2, 1, num_symbols=2, length=3).train))) == 6
    with pytest.raises(ConfigError, match="is 9, but there are only 8 sequences"):
        copy_task(7, 2, 1, num_symbols=2, length=3)


def test_a_task_prints_its_sizes() -> None:
    expected = "CopyTask(train=<InMemoryPairs: 1,000 pairs>, held_out=<InMemoryPairs: 5 pairs>, vocab_size=15)"
    assert repr(copy_task(1000, 5, 1)) == expected


def test_pairs_in_memory_need_as_many_targets_as_sources() -> None:
    with pytest.raises(DataError, match=r"`tgt` must have one row per source \(1\), but has 0"):
        InMemoryPairs([[4]], [])
