"""Texts written in capitals, such as headings. Most models never saw them in training and translate them badly.

Such a text is translated twice: as it is, and in sentence case. The translation that loses fewer terms wins, then the
one with the higher score. If the sentence case wins, its translation is returned in capitals. A model that was trained
on capitals therefore keeps its own translation, and names such as NATO are unharmed.
docs/explanation/training-options.md has the measured gain.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.inference.preservation.preserver import translate_preserving
from dragoman.inference.segments import InputText, SearchedText
from dragoman.inference.text_search import TextSearch, TranslationOptions
from dragoman.records import Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import split_sentences

_WORD = re.compile(r"[^\W\d_]{2,}")
_LEAST_WORDS, _LEAST_LETTERS = 2, 8


def is_all_caps(text: str) -> bool:
    """Whether a text has at least two words and eight letters, all capitals. Shorter texts may be names."""
    if text != text.upper():
        return False
    words = [word for word in _WORD.findall(text) if word != word.lower()]
    return len(words) >= _LEAST_WORDS and sum(map(len, words)) >= _LEAST_LETTERS


def sentence_case(text: str) -> str:
    """The text in lower case, with a capital at the start of each sentence."""
    return "".join(_capitalize_first(sentence.lower()) for sentence in split_sentences(text))


def retry_all_caps(
    search: TextSearch, texts: Sequence[InputText], answers: Sequence[SearchedText], options: TranslationOptions
) -> list[SearchedText]:
    """Replace the answers of texts in capitals by the answers of their sentence case, where those are better.

    Texts with markers or a prefix keep their answers. The tokens of a candidate stay as the model wrote them, in lower
    case.
    """
    capitals = {
        place: text
        for place, text in enumerate(texts)
        if not text.marked.markers and not text.prefix and is_all_caps(text.marked.text)
    }
    recased = [replace(text, marked=MarkedText(sentence_case(text.marked.text), ())) for text in capitals.values()]
    if not recased:
        return list(answers)
    unescaped = replace(options, preserve=replace(options.preserve, escape=str))
    others = dict(zip(capitals, translate_preserving(search, recased, unescaped), strict=True))
    return [
        _in_capitals(other, texts[place].marked.text, options.preserve.escape)
        if (other := others.get(place)) and _sureness(other.translation) > _sureness(answer.translation)
        else answer
        for place, answer in enumerate(answers)
    ]


def _sureness(answer: Translation) -> tuple[int, float]:
    """Sort key of translations: fewer lost terms first, then the higher score."""
    score = answer.candidates[0].score if answer.candidates else float("-inf")
    return -len(answer.lost), score


def _in_capitals(answer: SearchedText, src: str, escape: Callable[[str], str]) -> SearchedText:
    translation = answer.translation
    candidates = tuple(replace(each, text=escape(each.text.upper())) for each in translation.candidates)
    lost = tuple(each.upper() for each in translation.lost)
    return replace(answer, translation=replace(translation, src=src, candidates=candidates, lost=lost))


def _capitalize_first(sentence: str) -> str:
    for place, character in enumerate(sentence):
        if character.isalnum():  # a sentence that starts with a number gets no capital
            return sentence[:place] + character.upper() + sentence[place + 1 :]
    return sentence
