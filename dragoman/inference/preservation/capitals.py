"""Text in capitals: headings and angry mail, which most models never saw and answer with nonsense.

It is translated as it is and in sentence case as well, and the answer that the model is surer of is taken, in capitals.
So a model that knows capitals keeps its own answer, and names such as NATO theirs. docs/recipes.md has what it gives.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from dragoman.inference.options import Preserve
from dragoman.inference.preservation.preserver import Preserver
from dragoman.inference.segments import InputText, Request
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
    preserver: Preserver,
    texts: Sequence[InputText],
    preserve: Preserve,
    plain: list[Request | None],
    answers: list[Translation],
) -> None:
    """Replace answers to texts in capitals, and their requests in `plain`, where sentence case is translated better.

    Texts with markers or a prefix keep their answers. The tokens of a candidate stay in lower case, as the model wrote
    them.
    """
    places = [
        place
        for place, text in enumerate(texts)
        if not text.marked.markers and not text.prefix and is_all_caps(text.marked.text)
    ]
    if not places:
        return
    recased = [
        replace(texts[place], marked=MarkedText(sentence_case(texts[place].marked.text), ())) for place in places
    ]
    others = preserver.answers(recased, replace(preserve, escape=str))
    for place, request, answer in zip(places, *others, strict=True):
        if _sureness(answer) > _sureness(answers[place]):
            plain[place] = request
            answers[place] = _in_capitals(replace(answer, src=texts[place].marked.text), preserve.escape)


def _sureness(answer: Translation) -> tuple[int, float]:
    score = answer.candidates[0].score if answer.candidates else float("-inf")
    return -len(answer.lost), score


def _in_capitals(answer: Translation, escape: Callable[[str], str]) -> Translation:
    candidates = tuple(replace(each, text=escape(each.text.upper())) for each in answer.candidates)
    return replace(answer, candidates=candidates, lost=tuple(each.upper() for each in answer.lost))


def _capitalize_first(sentence: str) -> str:
    for place, character in enumerate(sentence):
        if character.isalnum():  # a sentence that begins with a number has no capital
            return sentence[:place] + character.upper() + sentence[place + 1 :]
    return sentence
