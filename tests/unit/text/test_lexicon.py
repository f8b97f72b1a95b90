"""A lexicon learned from encoded pairs, against a plain implementation of the same formulas."""

import math
import random
import tracemalloc
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from dragoman.text.lexicon import Lexicon, improve_lexicon, learn_lexicon, learn_tried_lexicon
from dragoman.text.tokenization.encoding import RaggedIds

Row = list[int]
ids = st.lists(st.integers(4, 9), max_size=5)


def learned(pairs: list[tuple[Row, Row]], sizes: tuple[int, int] = (10, 10)) -> Lexicon:
    src, tgt = (RaggedIds.of([pair[side] for pair in pairs]) for side in (0, 1))
    return learn_lexicon(src, tgt, sizes)


def reference(pairs: list[tuple[Row, Row]], iterations: int = 5) -> list[dict[tuple[int, int], float]]:
    """The link probabilities of each pair after training, with dictionaries and loops."""
    pairs = [pair for pair in pairs if all(pair)]
    counts = {(s, t): 1.0 for src, tgt in pairs for s in src for t in tgt}
    alone = [dict.fromkeys(range(10), 0.1), dict.fromkeys(range(10), 0.1)]

    def links_of(src: Row, tgt: Row) -> dict[tuple[int, int], float]:
        sums = [defaultdict[int, float](float), defaultdict[int, float](float)]
        for (s, t), count in counts.items():
            sums[0][s] += count
            sums[1][t] += count

        def near(i: int, j: int) -> float:
            return math.exp(-abs((i + 0.5) / len(src) - (j + 0.5) / len(tgt)))

        def posteriors(beside: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
            def weight(i: int, j: int, side: int) -> float:
                return counts[src[i], tgt[j]] / sums[side][(src[i], tgt[j])[side]] * near(i, j) * beside[i, j]

            found = {}
            for i, j in places:
                forward = weight(i, j, 0) / (sum(weight(k, j, 0) for k in range(len(src))) + alone[1][tgt[j]])
                backward = weight(i, j, 1) / (sum(weight(i, k, 1) for k in range(len(tgt))) + alone[0][src[i]])
                found[i, j] = math.sqrt(forward * backward)
            return found

        places = [(i, j) for i in range(len(src)) for j in range(len(tgt))]
        first = posteriors(dict.fromkeys(places, 1.0)) | {(-1, -1): 1.0, (len(src), len(tgt)): 1.0}
        beside = {(i, j): 0.5 + first.get((i - 1, j - 1), 0.0) + first.get((i + 1, j + 1), 0.0) for i, j in places}
        return posteriors(beside)

    for _ in range(iterations):
        new, left = dict.fromkeys(counts, 0.0), [dict.fromkeys(range(10), 0.01), dict.fromkeys(range(10), 0.01)]
        for src, tgt in pairs:
            found = links_of(src, tgt)
            for (i, j), link in found.items():
                new[src[i], tgt[j]] += link
            for i, token in enumerate(src):
                left[0][token] += max(0.0, 1 - sum(found[i, j] for j in range(len(tgt))))
            for j, token in enumerate(tgt):
                left[1][token] += max(0.0, 1 - sum(found[i, j] for i in range(len(src))))
        counts = new
        alone = [{token: value / sum(side.values()) for token, value in side.items()} for side in left]
    return [links_of(src, tgt) for src, tgt in pairs]


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=6))
@settings(max_examples=40)
def test_probabilities_equal_those_of_a_plain_implementation(pairs: list[tuple[Row, Row]]) -> None:
    lexicon = learned(pairs)
    expected = iter(reference(pairs))
    for src, tgt in pairs:
        found = lexicon.link_probabilities(src, tgt)
        assert found.shape == (len(src), len(tgt))
        if src and tgt:
            for (i, j), link in next(expected).items():
                assert found[i, j] == pytest.approx(link, abs=0.02)  # entries below 0.001 are left out


def test_a_dictionary_is_found_whatever_the_order_of_words() -> None:
    rng = random.Random(1)
    words = list(range(4, 60))
    translation = dict(zip(words, rng.sample(range(100, 156), len(words)), strict=True))
    pairs = []
    for _ in range(500):
        src = rng.sample(words, 6)
        tgt = [translation[word] for word in src]
        rng.shuffle(tgt)
        pairs.append((src, tgt))
    lexicon = learned(pairs, (60, 160))
    for src, tgt in pairs[:20]:
        best = lexicon.link_probabilities(src, tgt).argmax(0)
        assert [translation[src[i]] for i in best] == tgt


def test_the_sides_can_be_exchanged() -> None:
    rng = random.Random(2)
    pairs = [([rng.randrange(4, 10) for _ in range(4)], [rng.randrange(4, 10) for _ in range(3)]) for _ in range(30)]
    there, back = learned(pairs), learned([(tgt, src) for src, tgt in pairs])
    for src, tgt in pairs:
        difference = there.link_probabilities(src, tgt) - back.link_probabilities(tgt, src).T
        assert np.abs(difference).max() < 1e-4


def test_unknown_tokens_of_words_with_the_same_spelling_are_linked() -> None:
    lexicon = learned([([4, 5], [6, 7])] * 3)
    same = np.array([[False, True], [False, False]])
    assert lexicon.link_probabilities([8, 4], [6, 9]).max() < 0.01 + lexicon.link_probabilities([4], [6])[0, 0]
    found = lexicon.link_probabilities([8, 4], [6, 9], same)
    assert found[0, 1] > 0.4
    assert found[1, 0] > 0.35


def test_merging_adds_what_each_knows() -> None:
    one, other = learned([([4, 5], [6, 7]), ([4], [6])]), learned([([8, 9], [9, 4]), ([8], [9])])
    both = one.merged(other)
    for src, tgt in (([4, 5], [6, 7]), ([8, 9], [9, 4])):
        assert both.link_probabilities(src, tgt).argmax(1).tolist() == [0, 1]


@pytest.mark.parametrize("pairs", [[], [([], [])], [([4], [])], [([4] * 101, [5])]])
def test_pairs_that_teach_nothing(pairs: list[tuple[Row, Row]]) -> None:
    found = learned(pairs).link_probabilities([4, 5], [6])
    assert found.shape == (2, 1)
    assert not found.any()


def test_a_stored_lexicon_is_the_same_and_a_damaged_one_is_refused() -> None:
    lexicon = learned([([4, 5], [6, 7]), ([4], [6]), ([5, 8], [9, 7])])
    arrays = load(lexicon.to_bytes())
    again = Lexicon.from_bytes(lexicon.to_bytes())
    assert (again.link_probabilities([4, 5], [6, 7]) == lexicon.link_probabilities([4, 5], [6, 7])).all()
    for name, damaged in (
        ("entries", arrays["entries"][::-1].copy()),
        ("entries", arrays["entries"] + 1000),
        ("entries", arrays["entries"][:-1]),
        ("counts", -arrays["counts"]),
        ("counts", arrays["counts"].astype(np.float64)),
        ("src_alone", arrays["src_alone"] * np.float32("nan")),
        ("tgt_alone", arrays["tgt_alone"][None]),
        ("more", arrays["counts"]),
    ):
        with pytest.raises(ValueError, match="it"):
            Lexicon.from_bytes(save(arrays | {name: damaged}))
    with pytest.raises(ValueError, match="safetensors"):
        Lexicon.from_bytes(b"no lexicon")


def text_of(pairs: int, words: int, seed: int = 3) -> tuple[RaggedIds, RaggedIds]:
    """Sentences of common and rare words, and their translations word by word."""
    rng = random.Random(seed)
    rows = [[int(4 + words * rng.random() ** 3) for _ in range(rng.randrange(3, 9))] for _ in range(pairs)]
    return RaggedIds.of(rows), RaggedIds.of([[words + 10 - token for token in row] for row in rows])


@pytest.mark.parametrize(
    ("pairs", "words", "parallel", "sufficient"),
    [(3000, 200, True, True), (200, 2000, True, False), (300, 5, True, True)],
)
def test_what_a_lexicon_links_in_other_pairs_tells_whether_the_text_was_enough(
    pairs: int, words: int, parallel: bool, sufficient: bool
) -> None:
    src, tgt = text_of(pairs, words)
    lexicon, coverage = learn_tried_lexicon(src, tgt, (words + 10, words + 10))
    assert (coverage.parallel, coverage.sufficient) == (parallel, sufficient), coverage
    assert coverage.pairs == pairs - min(500, pairs // 10)
    assert improve_lexicon(None, lexicon, coverage) is (lexicon if sufficient else None)
    known = learned([([4], [words + 6])], (words + 10, words + 10))
    more = improve_lexicon(known, lexicon, coverage)
    assert more is not None
    assert len(more.entries) > 1


def test_sides_that_do_not_translate_each_other_are_recognized() -> None:
    src, tgt = text_of(3000, 200)[0], text_of(3000, 200, seed=4)[1]
    lexicon, coverage = learn_tried_lexicon(src, tgt, (210, 210))
    assert not coverage.parallel
    assert not coverage.sufficient
    known = learned([([4], [206])], (210, 210))
    assert improve_lexicon(known, lexicon, coverage) is known
    same = RaggedIds.of([[4]] * 200)
    assert not learn_tried_lexicon(same, same, (10, 10))[1].parallel
    assert not learn_tried_lexicon(RaggedIds.of([]), RaggedIds.of([]), (10, 10))[1].parallel


def test_long_texts_take_little_memory() -> None:
    lexicon = learned([([4, 5], [6, 7])] * 3)
    tracemalloc.start()
    try:
        for size in (1000, 1001, 1002):
            assert lexicon.link_probabilities([4] * size, [6] * size).shape == (size, size)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000  # one byte for each cell of a matrix of links
