"""Texts in capitals are answered in capitals, by the better of two translations."""

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman.inference.options import Preserve
from dragoman.inference.preservation.capitals import is_all_caps, retry_all_caps, sentence_case
from dragoman.inference.segments import InputText
from dragoman.records import Candidate, Translation
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
def test_what_is_in_capitals(text: str, expected: bool) -> None:
    assert is_all_caps(text) is expected


def test_sentence_case() -> None:
    assert sentence_case("TWO DOGS SLEEP. “A CAT” EATS! 3 BIRDS") == "Two dogs sleep. “A cat” eats! 3 birds"


class Answering:
    """A keeper that writes what it was asked between angles."""

    def __init__(self, lost: tuple[str, ...] = (), score: float = -1.0) -> None:
        self.asked: list[list[str]] = []
        self.lost, self.score = lost, score

    def answers(self, inputs: Sequence[InputText], preserve: Preserve) -> tuple[Any, Any]:
        texts = [one.marked.text for one in inputs]
        self.asked.append(texts)
        assert preserve.escape is str
        found = [replace(_answer(f"<{text}> & groß", text, self.score), lost=self.lost) for text in texts]
        return [f"request {one.number}" for one in inputs], found


def _answer(text: str, src: str, score: float) -> Translation:
    return Translation(src, (Candidate(text, ("tokens",), (-1.0,), score, score),), 1, cut=False)


def _answered(
    sources: list[MarkedText], keeper: Answering, prefixes: Sequence[str] = ("", "", ""), escape: Any = str
) -> tuple[list[Any], list[str]]:
    requests: list[Any] = [f"first {number}" for number in range(len(sources))]
    answers = [_answer("nonsense", source.text, -2.0) for source in sources]
    inputs = [InputText(*one) for one in zip(sources, prefixes, range(len(sources)), strict=False)]
    retry_all_caps(keeper, inputs, Preserve(False, escape=escape), requests, answers)  # type: ignore[arg-type]
    assert [answer.src for answer in answers] == [source.text for source in sources]
    return requests, [answer.text for answer in answers]


CAPITALS = MarkedText("A MAN SLEEPS.", ())


def test_the_surer_answer_is_given_in_capitals_with_its_own_request() -> None:
    keeper = Answering()
    sources = [CAPITALS, MarkedText("A man sleeps.", ()), MarkedText("TWO DOGS EAT.", ())]
    requests, texts = _answered(sources, keeper)
    assert keeper.asked == [["A man sleeps.", "Two dogs eat."]]
    assert requests == ["request 0", "first 1", "request 2"]
    assert texts == ["<A MAN SLEEPS.> & GROSS", "nonsense", "<TWO DOGS EAT.> & GROSS"]


def test_capitals_come_before_escapes() -> None:
    assert _answered([CAPITALS], Answering(), escape=html.escape)[1] == ["&lt;A MAN SLEEPS.&gt; &amp; GROSS"]


def test_a_model_that_is_surer_of_capitals_keeps_its_answer() -> None:
    assert _answered([CAPITALS], Answering(score=-3.0)) == (["first 0"], ["nonsense"])


def test_prefixes_marks_and_what_would_be_lost_stay() -> None:
    keeper = Answering()
    assert _answered([CAPITALS], keeper, prefixes=["Ein"])[1] == ["nonsense"]
    assert _answered([MarkedText(CAPITALS.text, ("a mark",))], keeper)[1] == ["nonsense"]  # type: ignore[arg-type]
    assert keeper.asked == []
    assert _answered([CAPITALS], Answering(lost=("x.org",)))[1] == ["nonsense"]
