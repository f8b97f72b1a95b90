"""The size of a corpus: target words, and the characters that a vocabulary must cover."""

import pytest

from dragoman.config.recipes import CorpusSize
from dragoman.records import SentencePair
from dragoman.text.corpus.corpus import SizeCounter, num_words


def size_of(*chunks: list[tuple[str, str]]) -> CorpusSize:
    counter = SizeCounter()
    for chunk in chunks:
        counter.add([SentencePair(*pair) for pair in chunk])
    return counter.size()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        (" a  dog's\tlife. ", 3),
        ("schöne Grüße", 2),
        ("吾輩は猫である。", 5),  # seven characters, and the full stop alone counts as a word
        ("東京 タワー", 3),
        ("iPhone を買う", 3),
        ("สวัสดี", 3),
        ("안녕 하세요", 2),
    ],
)
def test_words(text: str, words: int) -> None:
    assert num_words(text) == words


def test_pairs_and_words_are_those_of_all_chunks() -> None:
    assert size_of([("a b c", "d e")] * 3, [("f", "g h i j")]) == CorpusSize(4, 10, 10 + 1)
    assert size_of() == CorpusSize(0, 0, 0)


def test_what_is_rare_is_no_part_of_the_alphabet() -> None:
    common = [("ab" * 100, "cd" * 100)] * 10
    assert size_of(common, [("x", "y")]).alphabet == 4
    assert size_of(common, [("x", "y" * 10)]).alphabet == 5


def test_of_a_large_corpus_an_eighth_of_the_chunks_tells_the_alphabet() -> None:
    large = [("ab" * 1000, "ba" * 1000)] * 600
    unseen, seen = [("x" * 4000, "y y")] * 10, [("c" * 4000, "c c")] * 10
    assert size_of(large, *[unseen] * 7, seen) == CorpusSize(680, 600 + 160, 3)
