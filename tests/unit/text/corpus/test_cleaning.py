from collections import deque
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DataSettings
from dragoman.records import SentencePair
from dragoman.text.corpus.cleaning import DUPLICATE, EMPTY, HELD_OUT, RATIO, SHARED, TOO_LONG, Cleaner
from dragoman.text.corpus.splitting import FingerprintSet, HeldOut, fingerprints, source_fingerprints
from dragoman.text.tokenization.encoding import BatchEncoderPair
from dragoman.text.tokenization.tokenizer import TokenizerPair
from tests.unit.text.corpus.holding_out import hold_out


def pairs_of(*sides):
    return [SentencePair(src, tgt) for src, tgt in sides]


def test_every_rule_counts_what_it_takes(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    held = FingerprintSet()
    held.add(source_fingerprints([SentencePair("Held  out", "")], 7))
    left_out = [("a", "b"), ("", "x"), ("x", " \u3000"), ("held OUT", "y"), ("q " * 30, "z " * 30), ("n", "m " * 15)]
    pairs = pairs_of(("a", "b"), ("a", "c"), *left_out)
    cleaner = Cleaner(DataSettings(max_tokens=40, max_length_ratio=2.0), HeldOut(sources=held, seed=7))
    (kept,) = cleaner.clean(pairs, BatchEncoderPair.of(TokenizerPair(tokenizer, tokenizer, joint=True)))
    assert kept.pairs == pairs_of(("a", "b"), ("a", "c"))
    assert kept.src.to_lists() == [tokenizer.encode(pair.src) for pair in kept.pairs]
    assert kept.tgt.to_lists() == [tokenizer.encode(pair.tgt) for pair in kept.pairs]
    report = cleaner.report
    assert report.dropped == {EMPTY: 2, HELD_OUT: 0, SHARED: 1, DUPLICATE: 1, TOO_LONG: 1, RATIO: 1}
    assert report.read == report.kept + sum(report.dropped.values()) == 8
    assert report.rows()[0] == ("read", 8, 1.0)
    assert report.rows()[-1] == ("kept", 2, 0.25)


def test_pairs_held_out_are_told_from_others_with_their_source():
    pairs = pairs_of(*((f"source {number % 50}", f"Ziel {number}") for number in range(200)))
    held = hold_out(pairs, DataSettings(dev_fraction=0.02, test_fraction=0.02), 7)
    cleaner = Cleaner(DataSettings(), held)
    kept = list(cleaner.clean_texts(pairs))
    assert cleaner.report.dropped[HELD_OUT] == len(held.dev) + len(held.test) == 8
    assert cleaner.report.dropped[SHARED] == 3 * 8
    assert len(kept) == 200 - 4 * 8


def test_of_repetitions_of_a_held_out_pair_one_was_held_out():
    pairs = pairs_of(*((f"source {number}", "Ziel") for number in range(60))) * 2
    cleaner = Cleaner(DataSettings(drop_duplicates=False), hold_out(pairs, DataSettings(), 7))
    assert len(list(cleaner.clean_texts(pairs))) == 120 - 4
    assert (cleaner.report.dropped[HELD_OUT], cleaner.report.dropped[SHARED]) == (2, 2)


def test_a_second_pass_repeats_what_the_first_decided(tokenizer_of, monkeypatch):
    monkeypatch.setattr("dragoman.text.corpus.cleaning.CHUNK_PAIRS", 3)
    tokenizer = tokenizer_of("byte_bpe")
    encoders = BatchEncoderPair.of(TokenizerPair(tokenizer, tokenizer, joint=True))
    pairs = pairs_of(
        ("a", "b"), ("", "x"), ("a", "b"), ("c", "d"), ("e", "f"), ("c", "d"), ("g", "h " * 50), ("i", "j")
    )
    once, twice = Cleaner(DataSettings()), Cleaner(DataSettings())
    expected = [pair for chunk in once.clean(pairs, encoders) for pair in chunk.pairs]
    texts = list(twice.clean_texts(pairs))
    assert texts == list(twice.clean_texts(pairs)) == [pairs[place] for place in (0, 3, 4, 6, 7)]
    assert [pair for chunk in twice.clean(pairs, encoders) for pair in chunk.pairs] == expected
    assert expected == [pairs[place] for place in (0, 3, 4, 7)]
    assert twice.report == once.report
    assert twice.report.read == 8


def test_a_pass_that_was_not_finished_decides_nothing(tokenizer_of):
    pairs, cleaner = pairs_of(("a", "b"), ("c", "d")), Cleaner(DataSettings(drop_duplicates=False))
    assert next(cleaner.clean_texts(pairs)) == pairs[0]
    assert list(cleaner.clean_texts(pairs)) == pairs


def test_repetitions_stay_where_asked():
    cleaner = Cleaner(DataSettings(drop_duplicates=False))
    assert len(list(cleaner.clean_texts(pairs_of(("a", "b"), ("a", "b"))))) == 2


def test_sides_are_not_run_together():
    assert len(list(Cleaner(DataSettings()).clean_texts(pairs_of(("ab", "c"), ("a", "bc"))))) == 2


@pytest.mark.parametrize(
    ("src", "tgt", "kept"),
    [
        (1, 9, True),
        (1, 10, False),
        (9, 1, True),
        (0, 5, True),
        (20, 85, True),
        (20, 86, False),
        (100, 100, True),
        (101, 100, False),
    ],
)
def test_lengths(src, tgt, kept):
    assert Cleaner(DataSettings(max_tokens=100)).keep_lengths(np.array([src]), np.array([tgt])).tolist() == [kept]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 300), max_size=60), max_size=12))
def test_the_set_is_a_set(chunks):
    ours, theirs = FingerprintSet(), set()
    for chunk in chunks:
        values = np.array(chunk, np.uint64)
        assert ours.contains(values).tolist() == [value in theirs for value in chunk]
        expected = []
        for value in chunk:
            expected.append(value not in theirs)
            theirs.add(value)
        assert ours.add(values).tolist() == expected
        assert len(ours) == len(theirs)


def test_the_set_over_many_levels(monkeypatch):
    monkeypatch.setattr("dragoman.text.corpus.splitting._SMALLEST_LEVEL", 4)
    rng, ours = np.random.default_rng(1), FingerprintSet()
    values = rng.permutation(np.repeat(np.arange(3000, dtype=np.uint64), 2))
    assert sum(int(ours.add(chunk).sum()) for chunk in np.array_split(values, 173)) == len(ours) == 3000
    assert sum(level.nbytes for level in ours._levels) == 8 * 3000
    assert len(ours._levels) < 12


def test_fingerprints_are_keyed_and_fixed():
    assert fingerprints(["a", "b"]).tolist() == fingerprints(["a", "b"]).tolist()
    assert fingerprints(["a"])[0] == int.from_bytes(blake2b(b"a", digest_size=8).digest(), "little")
    assert fingerprints(["a"], b"1")[0] != fingerprints(["a"], b"2")[0]


@given(st.lists(st.tuples(st.sampled_from("abcdef "), st.sampled_from("xy ")), min_size=40, max_size=60), st.data())
def test_fingerprints_that_are_known_are_not_made_again(rows, data):
    """Known fingerprints, in the chunks of the cleaner, change no decision, however many pairs they cover."""
    pairs = pairs_of(*((f"{src} {number % 9}", tgt) for number, (src, tgt) in enumerate(rows)))
    held = hold_out(pairs, DataSettings(), 7)
    values = np.concatenate(held.read)
    assert values.tolist() == source_fingerprints(pairs, 7).tolist()
    known = data.draw(st.integers(0, len(pairs)))
    pieces = deque(values[start : min(start + 7, known)] for start in range(0, known, 7))
    plain, ours = Cleaner(DataSettings(), held), Cleaner(DataSettings(), held, pieces)
    for start in range(0, len(pairs), 7):
        chunk = pairs[start : start + 7]
        assert ours.keep_texts(chunk).tolist() == plain.keep_texts(chunk).tolist()
    assert not sum(map(len, pieces))
