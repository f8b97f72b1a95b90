"""Texts in capitals: the better of two translations, in capitals."""

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman.config import InferenceSettings
from dragoman.engines.interface import Source
from dragoman.inference.preservation import is_all_caps, retry_all_caps, sentence_case
from dragoman.inference.segments import InputText, SearchedText
from dragoman.inference.text_search import TranslationOptions
from dragoman.records import NO_DETAILS, Candidate, Preserve, Translation
from dragoman.text.documents.markers import MarkedText


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A MAN SLEEPS ON A COUCH.", True),
        ("ÜBER GRÖSSE, 25 KM!", True),
        ("НОВОСТИ ДНЯ", True),
        ("NATO", False),
        ("US EU", False),
        ("A B C D E F G H I J", False),
        ("A MAN sLEEPS ON A COUCH.", False),
        ("Nothing of the kind", False),
        ("猫は眠る 犬は走る 鳥は歌う", False),
        ("2024 12 31", False),
        ("", False),
    ],
)
def test_is_all_caps(text: str, expected: bool) -> None:
    assert is_all_caps(text) is expected


def test_sentence_case() -> None:
    assert sentence_case("TWO DOGS SLEEP. “A CAT” EATS! 3 BIRDS") == "Two dogs sleep. “A cat” eats! 3 birds"


class Answering:
    """Replaces `translate_preserving` and returns its input in angle brackets."""

    def __init__(self, lost: tuple[str, ...] = (), score: float = -1.0) -> None:
        self.inputs: list[list[str]] = []
        self.lost, self.score = lost, score

    def __call__(self, search: Any, inputs: Sequence[InputText], options: TranslationOptions) -> list[SearchedText]:
        texts = [one.marked.text for one in inputs]
        self.inputs.append(texts)
        assert options.preserve.escape is str
        found = [replace(_translation(f"<{text}> & groß", text, self.score), lost=self.lost) for text in texts]
        return [_searched(f"searched {text.number}", one) for one, text in zip(found, inputs, strict=True)]


def _searched(name: str, translation: Translation) -> SearchedText:
    return SearchedText([Source(name, [])], [[]], translation)


def _translation(text: str, src: str, score: float) -> Translation:
    return Translation(src, (Candidate(text, ("tokens",), (-1.0,), score, score),), 1, cut=False)


def _answered(
    sources: list[MarkedText], answering: Answering, prefixes: Sequence[str] = ("", "", ""), escape: Any = str
) -> tuple[list[Any], list[str]]:
    first = [
        _searched(f"first {number}", _translation("nonsense", source.text, -2.0))
        for number, source in enumerate(sources)
    ]
    inputs = [InputText(*one) for one in zip(sources, prefixes, range(len(sources)), strict=False)]
    options = TranslationOptions(InferenceSettings(), Preserve(False, escape=escape), NO_DETAILS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.inference.preservation.translate_preserving", answering)
        answers = retry_all_caps(None, inputs, first, options)  # type: ignore[arg-type]
    assert [answer.translation.src for answer in answers] == [source.text for source in sources]
    assert [answer.translation.text for answer in first] == ["nonsense"] * len(sources)
    return [answer.sources[0].name for answer in answers], [answer.translation.text for answer in answers]


CAPITALS = MarkedText("A MAN SLEEPS.", ())


def test_better_answer_is_returned_in_capitals_with_its_search() -> None:
    answering = Answering()
    sources = [CAPITALS, MarkedText("A man sleeps.", ()), MarkedText("TWO DOGS EAT.", ())]
    requests, texts = _answered(sources, answering)
    assert answering.inputs == [["A man sleeps.", "Two dogs eat."]]
    assert requests == ["searched 0", "first 1", "searched 2"]
    assert texts == ["<A MAN SLEEPS.> & GROSS", "nonsense", "<TWO DOGS EAT.> & GROSS"]


def test_capitals_are_applied_before_escaping() -> None:
    assert _answered([CAPITALS], Answering(), escape=html.escape)[1] == ["&lt;A MAN SLEEPS.&gt; &amp; GROSS"]


def test_better_answer_to_capitals_is_kept() -> None:
    assert _answered([CAPITALS], Answering(score=-3.0)) == (["first 0"], ["nonsense"])


def test_texts_with_prefixes_or_markers_and_answers_that_lose_terms_stay() -> None:
    answering = Answering()
    assert _answered([CAPITALS], answering, prefixes=["Ein"])[1] == ["nonsense"]
    assert _answered([MarkedText(CAPITALS.text, ("a mark",))], answering)[1] == ["nonsense"]  # type: ignore[arg-type]
    assert answering.inputs == []
    assert _answered([CAPITALS], Answering(lost=("x.org",)))[1] == ["nonsense"]
