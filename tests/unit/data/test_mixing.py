from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batching import epoch_batches
from dragoman.data.mixing import UNTAGGED_SHARE, MixedCorpus, MixedPairs, epoch_tokens
from dragoman.data.store import InMemoryPairs
from dragoman.data.stream import BatchStream, Position, StepPlan

TAG, MARK = 90, 91


def pairs_of(*counts: int) -> InMemoryPairs:
    """Pairs whose source is the id of their corpus, and whose lengths differ."""
    rows = [(corpus, number) for corpus, count in enumerate(counts) for number in range(count)]
    sources = [[4 + corpus] * (1 + number % 5) for corpus, number in rows]
    return InMemoryPairs(sources, [[4] * (1 + number % 7) for _, number in rows])


def mixed(counts: list[int], weights: list[float]) -> MixedPairs:
    corpora = [MixedCorpus(f"{n}.tsv", *each) for n, each in enumerate(zip(counts, weights, strict=True))]
    return MixedPairs(pairs_of(*counts), corpora)


corpora = st.lists(st.tuples(st.integers(1, 60), st.floats(0.05, 20)), min_size=1, max_size=6)


@given(corpora, st.integers(0, 2**31 - 1), st.integers(0, 30))
@settings(deadline=None)
def test_each_corpus_has_its_share_of_every_epoch_and_of_all_epochs_together(
    given_corpora: list[tuple[int, float]], seed: int, epoch: int
) -> None:
    counts, weights = (list(each) for each in zip(*given_corpora, strict=True))
    pairs = mixed(counts, weights)
    parts = np.array(counts) * np.array(weights)
    exact = len(pairs) * parts / parts.sum()
    chosen = pairs.choose(seed, epoch)
    found = np.diff(np.searchsorted(np.sort(chosen[0]), pairs.starts))
    assert np.abs(found - exact).max() <= 1 + 1e-6
    assert np.abs(np.array(pairs.taken(epoch)) - epoch * exact).max() <= 0.5 + 1e-6  # rounding does not add up
    assert len(found) > 0


@given(corpora, st.integers(0, 2**31 - 1))
@settings(deadline=None, max_examples=50)
def test_every_pair_is_seen_before_one_is_seen_twice(given_corpora: list[tuple[int, float]], seed: int) -> None:
    counts, weights = (list(each) for each in zip(*given_corpora, strict=True))
    pairs, seen = mixed(counts, weights), Counter[int]()
    for epoch in range(5):
        chosen = pairs.choose(seed, epoch)
        for index, pass_ in zip(chosen[0].tolist(), chosen[1].tolist(), strict=True):
            assert pass_ == seen[index]
            seen[index] += 1
        for start, end in zip(pairs.starts, pairs.starts[1:], strict=False):
            times = [seen[index] for index in range(start, end)]
            assert max(times) - min(times) <= 1


def test_equal_weights_give_the_steps_of_one_corpus() -> None:
    pairs = mixed([50, 20, 80], [3.0, 3.0, 3.0])
    for epoch in range(3):
        joined, apart = epoch_batches(pairs.pairs, 60, 7, epoch), epoch_batches(pairs, 60, 7, epoch)
        assert np.array_equal(joined.order, apart.order)
        assert np.array_equal(joined.ends, apart.ends)
        assert set(apart.passes.tolist()) == {epoch}
    assert epoch_tokens(pairs) == epoch_tokens(pairs.pairs)


def test_an_epoch_depends_on_seed_and_number_alone_and_passes_differ() -> None:
    pairs = mixed([40, 40], [1.0, 4.0])
    again = pairs.choose(1, 3)
    assert np.array_equal(again[0], mixed([40, 40], [1.0, 4.0]).choose(1, 3)[0])
    light = [{index for index in pairs.choose(1, epoch)[0].tolist() if index < 40} for epoch in range(2)]
    assert [len(each) for each in light] == [16, 16]
    assert not light[0] & light[1]
    assert light[0] != {index for index in pairs.choose(2, 0)[0].tolist() if index < 40}


def test_shares_of_100_000_pairs_are_those_of_the_weights() -> None:
    counts, weights = [5_000, 40_000, 12_000], [4.0, 0.5, 1.0]
    pairs, taken = mixed(counts, weights), np.zeros(3)
    for epoch in range(2):
        chosen = pairs.choose(1, epoch)
        taken += np.diff(np.searchsorted(np.sort(chosen[0]), pairs.starts))
    parts = np.array(counts) * weights
    assert taken.sum() > 100_000
    assert np.abs(taken / taken.sum() - parts / parts.sum()).max() < 0.0001


def test_a_corpus_that_is_left_out_gives_its_place_to_the_others() -> None:
    pairs = mixed([30, 60, 10], [2.0, 1.0, 3.0]).with_epochs([(0, 1 << 40), (0, 2), (3, 1 << 40)])
    found = [np.diff(np.searchsorted(np.sort(pairs.choose(1, epoch)[0]), pairs.starts)) for epoch in range(5)]
    assert [each.tolist() for each in found] == [[50, 50, 0], [50, 50, 0], [100, 0, 0], [67, 0, 33], [66, 0, 34]]
    assert pairs.taken(5) == [sum(int(each[n]) for each in found) for n in range(3)]


def test_steps_have_control_tokens_before_their_sources_and_nine_tenths_of_the_tags() -> None:
    stored = pairs_of(400, 400, 400)
    parts = [MixedCorpus("a", 400, 1.0, TAG), MixedCorpus("b", 400, 1.0, TAG, MARK), MixedCorpus("c", 400)]
    pairs = MixedPairs(stored, parts)
    assert (pairs.src_counts - stored.src_counts).tolist() == [1] * 400 + [2] * 400 + [0] * 400

    def heads(epoch: int, start: int = 0) -> Counter[tuple[int, ...]]:
        found = Counter[tuple[int, ...]]()
        with BatchStream(pairs, StepPlan(100, 100, 5), Position(epoch, start)) as stream:
            for step in stream:
                for batch in step.batches:
                    for row, length in zip(batch.src_ids.tolist(), batch.src_lengths.tolist(), strict=True):
                        found[tuple(one for one in row[:length] if one in (4, 5, 6, TAG, MARK))[:3]] += 1
                if step.ends_epoch:
                    return found
        raise AssertionError

    def kind(head: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one for one in head if one in (TAG, MARK))

    counts = Counter[tuple[int, tuple[int, ...]]]()
    for head, count in heads(0).items():
        corpus = next(one for one in head if one in (4, 5, 6)) - 4
        assert head[: len(kind(head))] == kind(head)
        counts[corpus, kind(head)] += count
    assert counts[2, ()] == 400
    for corpus, tagged, untagged in ((0, (TAG,), ()), (1, (TAG, MARK), (MARK,))):
        assert counts[corpus, tagged] + counts[corpus, untagged] == 400
        assert counts[corpus, untagged] / 400 == pytest.approx(UNTAGGED_SHARE, abs=0.05)
    assert heads(0) == heads(0)
    assert {index for index in range(400) if pairs.controls(index, 5, 0) == ()} != {
        index for index in range(400) if pairs.controls(index, 5, 1) == ()
    }


def test_an_encoder_gets_the_pass_of_each_pair() -> None:
    pairs, calls = mixed([10, 30], [6.0, 1.0]), []

    def encode(index: int, pass_: int) -> tuple[list[int], list[int]]:
        calls.append((index, pass_))
        return [4], [4]

    with BatchStream(pairs, StepPlan(16, 16, 1, steps_ahead=1), encode=encode) as stream:
        for step in stream:
            if step.ends_epoch:
                break
    of_small = [call for call in calls if call[0] < 10]
    assert len(set(of_small)) == len(of_small) > 20  # no pair is augmented twice in the same way
    assert {pass_ for _, pass_ in of_small} == {0, 1, 2}


def test_corpora_must_have_the_pairs_of_the_store() -> None:
    with pytest.raises(ValueError, match="5 pairs, but there are 4"):
        MixedPairs(pairs_of(4), [MixedCorpus("a", 5)])
