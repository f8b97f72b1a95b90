import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.corpus.splitting import FEWEST_WORDS, Overlap, _words

TEST = ["The old house stands near the river.", "Come in!", "It is a long way to the next town, she said."]


def overlap_of(test, *chunks):
    overlap = Overlap(test)
    for chunk in chunks:
        overlap.add(chunk)
    return overlap


def test_the_same_but_for_case_and_spacing_is_exact():
    overlap = overlap_of(TEST, ["nothing", "COME  in!"], ["come in!", TEST[0]])
    assert overlap.exact().tolist() == [4, 2, 0]
    assert overlap.near().tolist() == [4, 2, 0]


@pytest.mark.parametrize(
    "text",
    [
        "the old house stands near the river",
        '"The old house stands near the river."',
        "The old house stands near the bridge.",
        "The old blue house stands near the river.",
        "Old house stands near the river.",
        "The old house stands near the river today.",
    ],
)
def test_small_edits_are_near(text):
    overlap = overlap_of(TEST, [text])
    assert (overlap.exact().tolist(), overlap.near().tolist()) == ([0, 0, 0], [1, 0, 0])


@pytest.mark.parametrize(
    "text", ["The new house stands near the bridge.", "Come on!", "river the near stands house old The", "", "..."]
)
def test_what_is_not_near(text):
    assert overlap_of(TEST, [text]).near().tolist() == [0, 0, 0]


def test_short_sentences_are_near_only_with_the_same_words():
    assert overlap_of(["I like tea."], ["I like coffee."]).near().tolist() == [0]
    assert overlap_of(["I like tea."], ["i like tea"]).near().tolist() == [1]


def test_scripts_without_spaces_have_a_word_a_character():
    assert overlap_of(["私は東京に住んでいます。"], ["私は大阪に住んでいます。"]).near().tolist() == [0]
    assert overlap_of(["私は東京に住んでいます。"], ["僕は東京に住んでいます。"]).near().tolist() == [1]


words = st.lists(st.sampled_from("a b c d e".split()), min_size=0, max_size=9)


@given(words, words)
def test_against_the_definition(test, training):
    def without_one(some):
        return {tuple(some[:place] + some[place + 1 :]) for place in range(len(some)) if len(some) >= FEWEST_WORDS}

    variants = [{tuple(some)} | without_one(some) for some in (test, training)]
    near = bool(test and training and variants[0] & variants[1])
    assert bool(overlap_of([" ".join(test)], [" ".join(training)]).near()[0]) == near


def test_many_sentences_in_any_order():
    rng = random.Random(4)
    sentences = [" ".join(rng.choices("abcdefghijklmnop", k=rng.randrange(5, 30))) for _ in range(2000)]
    test, training = sentences[:500], sentences[500:]
    assert not overlap_of(test, training).near().any()
    rng.shuffle(training)
    training[10:10] = test[:100]
    assert overlap_of(test, training[:700], training[700:]).exact().nonzero()[0].tolist() == list(range(100))


def test_words_are_those_of_the_eye():
    assert _words("It’s ＡＢＣ, 12-fach_x") == ["it’s", "abc", "12", "fach", "x"]
