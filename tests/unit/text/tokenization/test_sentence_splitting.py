import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.tokenization.sentence_splitting import Segment, join_segments, split_sentences, split_to_fit

ANY_TEXT = st.text() | st.text(alphabet="ab .,!。、\n\u0301\u200d?3D")


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT)
def test_sentences_lose_nothing(text):
    pieces = split_sentences(text)
    assert "".join(pieces) == text
    assert all(pieces)


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, st.integers(1, 12))
def test_segments_lose_nothing_and_fit(text, limit):
    segments = split_to_fit(text, len, limit)
    assert "".join(part + separator for part, separator in segments) == text
    assert join_segments(segments, [segment.text for segment in segments]) == text
    if len(text) > limit:
        assert all(len(part) <= limit for part, _ in segments)
    assert all(part == part.strip() and not separator.strip() for part, separator in segments[1:])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two! Three? Four", 4),
        ("He met Dr. Smith and J. R. Tolkien on 3. Oktober. Then he left.", 2),
        ("Es gibt z.B. Äpfel. Und Birnen.", 2),
        ('"Stop!" She ran. (Really.) Yes.', 4),
        ("Wait... what? He paused... and left.", 2),
        ("version 3.11 of a.b.c is out. Good", 2),
        ("これは本です。「はい！」いいえ？そう", 4),
        ("هل هذا بيت؟ نعم هذا بيت۔ جيد", 3),
        ("यह घर है। वह पेड़ है।", 2),
        ("line one\nline two\n\nline three", 3),
        ("no end at all", 1),
        ("In 1990. He left.", 2),
    ],
)
def test_sentence_ends(text, count):
    assert len(split_sentences(text)) == count


def words(text):
    return len(text.split())


def test_a_text_that_fits_is_left_alone():
    assert split_to_fit(" One. Two.\n", words, 2) == [Segment("", " "), Segment("One. Two.", "\n")]
    assert split_to_fit("", words, 2) == []


def test_sentences_first():
    assert split_to_fit("One two.  Three four.\nFive", words, 3) == [
        Segment("One two.", "  "),
        Segment("Three four.", "\n"),
        Segment("Five", ""),
    ]


def test_then_clauses_then_words_then_anywhere():
    assert [s.text for s in split_to_fit("a b, c d; e f, g h", words, 4)] == ["a b, c d;", "e f, g h"]
    assert [s.text for s in split_to_fit("a b c d e", words, 2)] == ["a b", "c d", "e"]
    assert "".join(s.text for s in split_to_fit("x" * 100, len, 30)) == "x" * 100
    assert max(len(s.text) for s in split_to_fit("x" * 100, len, 30)) <= 30
    assert [s.text for s in split_to_fit("今日は、雨です", len, 4)] == ["今日は、", "雨です"]


def test_marks_stay_with_their_letters():
    parts = [s.text for s in split_to_fit("e\u0301" * 50, len, 10)]
    assert all(not part.startswith("\u0301") for part in parts)


def test_sentences_without_spaces_get_one_where_the_translation_wants_it():
    segments = split_to_fit("これは本です。はい。", len, 7)
    assert join_segments(segments, ["This is a book.", "Yes."]) == "This is a book. Yes."
    assert join_segments(segments, ["这是书。", "是。"]) == "这是书。是。"


def test_segments_fit_a_tokenizer(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    text = "The house is small, and the garden isn't large. 日本語" * 20 + "y" * 300
    segments = split_to_fit(text, lambda part: len(tokenizer.encode(part)), 16)
    assert "".join(part + separator for part, separator in segments) == text
    assert all(len(tokenizer.encode(part)) <= 16 for part, _ in segments)
