import gzip
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from dragoman.data.batching import (
    PADDING_SHARE,
    check_budget,
    epoch_batches,
    micro_batches,
    smallest_micro_batch,
)
from dragoman.data.store import InMemoryPairs
from dragoman.errors import ConfigError


def pairs_of(lengths: list[tuple[int, int]]) -> InMemoryPairs:
    return InMemoryPairs([[4] * src for src, _ in lengths], [[4] * tgt for _, tgt in lengths])


length_pairs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=200)
budgets = st.integers(41, 400)


@given(length_pairs, budgets, st.integers(0, 2**31 - 1), st.integers(0, 5))
@settings(deadline=None)
def test_an_epoch_is_every_pair_once_and_no_step_exceeds_its_budget(
    lengths: list[tuple[int, int]], batch_tokens: int, seed: int, epoch: int
) -> None:
    pairs = pairs_of(lengths)
    steps = epoch_batches(pairs, batch_tokens, seed, epoch)
    everything = [steps[step] for step in range(len(steps))]
    assert Counter(np.concatenate(everything).tolist()) == Counter(range(len(pairs)))
    for indices in everything:
        assert 0 < len(indices) <= (pairs.tgt_counts[indices] + 1).sum() <= batch_tokens


@given(length_pairs, budgets, st.integers(0, 2**31 - 1), st.integers(0, 5))
@settings(deadline=None)
def test_the_order_is_a_pure_function_of_seed_and_epoch(
    lengths: list[tuple[int, int]], batch_tokens: int, seed: int, epoch: int
) -> None:
    pairs = pairs_of(lengths)
    epoch_batches(pairs, batch_tokens, seed + 1, epoch)
    first, again = (epoch_batches(pairs, batch_tokens, seed, epoch) for _ in range(2))
    assert np.array_equal(first.order, again.order)
    assert np.array_equal(first.ends, again.ends)


@given(length_pairs, st.integers(1, 400), st.integers(0, 100))
def test_micro_batches_hold_each_row_once_within_both_limits(
    lengths: list[tuple[int, int]], limit: int, slack: int
) -> None:
    src, tgt = np.array(lengths).T
    pieces = micro_batches(src, tgt, limit, slack)
    assert Counter(np.concatenate(pieces).tolist()) == Counter(range(len(lengths)))
    for piece in pieces:
        sides = [(len(piece) * (side[piece].max() + 1), (side[piece] + 1).sum()) for side in (src, tgt)]
        assert len(piece) == 1 or max(padded for padded, _ in sides) <= limit
        padded, real = np.sum(sides, axis=0)
        assert padded - real <= slack + PADDING_SHARE * padded


def test_seeds_and_epochs_give_different_orders() -> None:
    random = np.random.default_rng(0)
    pairs = pairs_of([(int(src), int(tgt)) for src, tgt in random.integers(1, 20, (500, 2))])
    orders = {tuple(epoch_batches(pairs, 100, seed, epoch).order.tolist()) for seed in (1, 2) for epoch in (0, 1)}
    assert len(orders) == 4


def test_steps_mix_lengths_and_are_nearly_full() -> None:
    random = np.random.default_rng(0)
    pairs = pairs_of([(int(length), int(length)) for length in random.integers(1, 60, 5_000)])
    steps = epoch_batches(pairs, 2_000, 1, 0)
    spreads = [np.ptp(pairs.tgt_counts[steps[step]]) for step in range(len(steps))]
    assert np.median(spreads) > 20
    assert (pairs.tgt_counts + 1).sum() / (2_000 * len(steps)) > 0.9


def test_a_pair_that_fits_no_step_names_the_value_needed() -> None:
    pairs = pairs_of([(3, 3), (5, 40)])
    check_budget(pairs, 41)
    with pytest.raises(ConfigError, match=r"`train.batch_tokens` is 40, .* at least 41"):
        epoch_batches(pairs, 40, 1, 0)


def test_no_pairs_are_no_steps() -> None:
    assert len(epoch_batches(pairs_of([]), 10, 1, 0)) == 0
    assert micro_batches([], [], 10) == []


def test_a_step_that_does_not_exist_is_an_index_error() -> None:
    steps = epoch_batches(pairs_of([(1, 1)]), 10, 1, 0)
    for step in (-1, 1):
        with pytest.raises(IndexError):
            steps[step]


def test_validation_batches_are_sorted_and_fit() -> None:
    pairs = pairs_of([(length % 7, length % 13) for length in range(300)])
    batches = micro_batches(pairs.src_counts, pairs.tgt_counts, 64)
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    longest = [int(pairs.tgt_counts[batch].max()) for batch in batches]
    assert longest == sorted(longest)
    assert smallest_micro_batch(pairs) == 13


def test_lengths_beyond_sixteen_bits_are_kept_apart() -> None:
    pairs = pairs_of([(70_000, 70_001), (1, 66_000), (1, 1)])
    steps = epoch_batches(pairs, 70_002, 3, 0)
    assert sorted(steps.order.tolist()) == [0, 1, 2]


def multi30k_lengths(folder: Path) -> tuple[list[int], list[int]]:
    files = [gzip.decompress((folder / f"train.{side}.gz").read_bytes()) for side in ("de", "en")]
    sides = [content.decode("utf-8").split("\n")[:-1] for content in files]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=10_000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*sides[0], *sides[1]], trainer)
    src, tgt = ([len(encoding.ids) for encoding in tokenizer.encode_batch(side)] for side in sides)
    return src, tgt


@pytest.mark.data
@pytest.mark.skipif("DRAGOMAN_DATA" not in os.environ, reason="DRAGOMAN_DATA names no folder of real corpora")
def test_a_shuffled_epoch_of_multi30k_is_little_padding() -> None:
    src, tgt = multi30k_lengths(Path(os.environ["DRAGOMAN_DATA"]) / "multi30k")
    pairs = pairs_of(list(zip(src, tgt, strict=True)))
    steps = epoch_batches(pairs, 4096, 1, 0)
    real = computed = 0
    for step in range(len(steps)):
        indices = steps[step]
        for piece in micro_batches(pairs.src_counts[indices], pairs.tgt_counts[indices], 4096):
            for lengths in (pairs.src_counts[indices[piece]] + 1, pairs.tgt_counts[indices[piece]] + 1):
                real += int(lengths.sum())
                computed += len(lengths) * int(lengths.max())
    assert 1 - real / computed <= 0.05
