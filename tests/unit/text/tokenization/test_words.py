from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import TokenizerSettings
from dragoman.text.lines import replace_surrogates
from dragoman.text.tokenization.tokenizer import Tokenizer, train_tokenizer
from dragoman.text.tokenization.words import spaced_words, words_of

TOKENIZER = train_tokenizer(TokenizerSettings(vocab_size=300), ["Wo ist der Bahnhof? 駅はどこですか。"] * 5)
FALLBACK = train_tokenizer(TokenizerSettings(vocab_size=300, byte_fallback=True), ["Wo ist der Bahnhof?"] * 5)


def texts_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [word.text for word in words_of(tokenizer.tokens(tokenizer.encode(text)))]


def test_marks_are_words_and_letters_stay_together() -> None:
    text = "Where's the driver's U-Bahn, at 12.50? (Yes!)"
    expected = ["Where's", "the", "driver's", "U-Bahn", ",", "at", "12.50", "?", "(", "Yes", "!", ")"]
    for tokenizer in (TOKENIZER, FALLBACK):
        assert texts_of(tokenizer, text) == expected


def test_characters_without_spaces_are_words_and_marks_of_a_letter_belong_to_it() -> None:
    assert texts_of(TOKENIZER, "東京 駅") == ["東", "京", "駅"]
    assert texts_of(TOKENIZER, "నమస్కారం అండి") == ["నమస్కారం", "అండి"]
    assert texts_of(TOKENIZER, "e" + "\u0301" * 200 + " x") == ["e" + "\u0301" * 200, "x"]
    assert texts_of(TOKENIZER, "👩‍👩‍👧 👍🏽 ok") == ["👩‍👩‍👧", "👍🏽", "ok"]


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=200)
def test_spaced_words_are_those_of_split_and_words_cover_all_tokens(text: str) -> None:
    text = replace_surrogates(text).replace("\u2581", " ")  # the mark of a space in tokens
    for tokenizer in (TOKENIZER, FALLBACK):
        tokens = tokenizer.tokens(tokenizer.encode(text))
        touched = [number for numbers in spaced_words(tokens) for number in numbers]
        assert sorted(set(touched)) == list(range(len(text.split())))
        assert touched == sorted(touched)
        words = words_of(tokens)
        assert [index for word in words for index in range(word.start, word.stop)] == list(range(len(tokens)))


def test_no_tokens_no_words() -> None:
    assert words_of([]) == ()
    assert spaced_words([]) == []
