"""Text in capitals: headings and angry mail, which most models never saw and answer with nonsense.

It is translated as it is and in sentence case as well. The answer that the model is surer of is taken, in capitals. So
a model that knows capitals keeps its own answer, and names such as NATO theirs.
docs/explanation/training-options.md has the gain.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.inference.preservation.preserver import translate_preserving
from dragoman.inference.segments import AnsweredText, InputText
from dragoman.inference.text_search import TextSearch, TranslationOptions
from dragoman.records import Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.sentence_splitting import split_sentences

_WORD = re.compile(r"[^\W\d_]{2,}")
_LEAST_WORDS, _LEAST_LETTERS = 2, 8


def is_all_caps(text: str) -> bool:
    """Whether every letter is a capital, of two words and eight letters at least: what is shorter may be a name."""
    if text != text.upper():
        return False
    words = [word for word in _WORD.findall(text) if word != word.lower()]
    return len(words) >= _LEAST_WORDS and sum(map(len, words)) >= _LEAST_LETTERS


def sentence_case(text: str) -> str:
    """In small letters, but for the one that a sentence begins with."""
    return "".join(_capitalize_first(sentence.lower()) for sentence in split_sentences(text))


def retry_all_caps(
    search: TextSearch, texts: Sequence[InputText], answers: Sequence[AnsweredText], options: TranslationOptions
) -> list[AnsweredText]:
    """The answers. A text in capitals has that of its sentence case, if the model is surer of it.

    Texts with markers or a prefix keep their answers. The tokens of a candidate stay in lower case, as the model wrote
    them.
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
    score = answer.candidates[0].score if answer.candidates else float("-inf")
    return -len(answer.lost), score


def _in_capitals(answer: AnsweredText, src: str, escape: Callable[[str], str]) -> AnsweredText:
    translation = answer.translation
    candidates = tuple(replace(each, text=escape(each.text.upper())) for each in translation.candidates)
    lost = tuple(each.upper() for each in translation.lost)
    return replace(answer, translation=replace(translation, src=src, candidates=candidates, lost=lost))


def _capitalize_first(sentence: str) -> str:
    for place, character in enumerate(sentence):
        if character.isalnum():  # a sentence that begins with a number has no capital
            return sentence[:place] + character.upper() + sentence[place + 1 :]
    return sentence
