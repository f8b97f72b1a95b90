"""A Translator that searches with CTranslate2 finds the same as our search."""

import pytest

from dragoman.bundle import Model
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.records import Translation

pytest.importorskip("ctranslate2")
from dragoman.exchange.ctranslate2_engine import ctranslate2_translator

LIMIT = {"max_extra_tokens": 20}


@pytest.fixture(scope="module")
def ours(imported: Model) -> Translator:
    return Translator.from_models([imported])


@pytest.fixture(scope="module")
def theirs(imported: Model) -> Translator:
    return ctranslate2_translator(imported, "float32", threads=2)


@pytest.fixture(scope="module")
def texts(english_german: list[tuple[str, str]]) -> list[str]:
    return ["", *(src for src, _ in english_german[:100]), " \t ", " ".join(src for src, _ in english_german[:60] * 4)]


def _ended(translation: Translation) -> bool:
    return not translation.cut


def test_greedy_outputs_are_the_same(ours: Translator, theirs: Translator, texts: list[str]) -> None:
    expected = ours.translate_detailed(texts, beam_size=1, **LIMIT)
    found = theirs.translate_detailed(texts, beam_size=1, **LIMIT)
    assert [one.src for one in found] == texts
    assert [one.segments for one in found] == [one.segments for one in expected]
    assert found[-1].segments > 1
    assert [one.cut for one in found] == [one.cut for one in expected]
    pairs = [pair for pair in zip(found, expected, strict=True) if pair[1].candidates and _ended(pair[1])]
    assert len(pairs) > 50
    for one, other in pairs:
        assert one.text == other.text
        # CTranslate2 leaves suppressed tokens out of the sum, so its probabilities are a little larger.
        length = len(other.candidates[0].tokens) + 1
        assert -1e-3 < one.candidates[0].log_prob - other.candidates[0].log_prob < 0.05 * length


@pytest.mark.parametrize("penalty", ["paper", "power"])
def test_beam_scores_are_close(ours: Translator, theirs: Translator, texts: list[str], penalty: str) -> None:
    search = {"beam_size": 4, "n_best": 3, "length_penalty": penalty, "length_penalty_alpha": 0.6, **LIMIT}
    pairs = list(zip(theirs.translate_detailed(texts, **search), ours.translate_detailed(texts, **search), strict=True))
    pairs = [pair for pair in pairs if pair[1].candidates and _ended(pair[1]) and _ended(pair[0])]
    assert sum(one.text == other.text for one, other in pairs) > 0.7 * len(pairs)
    for one, _ in pairs:
        scores = [candidate.score for candidate in one.candidates]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_a_translation_starts_with_the_prefix(theirs: Translator, texts: list[str]) -> None:
    beginnings = ["", "Ein Mann", *[""] * (len(texts) - 2)]
    found = theirs.translate_detailed(texts, prefixes=beginnings, beam_size=2, **LIMIT)
    assert found[1].text.startswith("Ein Mann")


def test_int8_and_auto_translate(imported: Model, texts: list[str]) -> None:
    for precision in ("int8", "auto"):
        answers = ctranslate2_translator(imported, precision, threads=1).translate(texts[:10], **LIMIT)
        assert answers[0] == ""
        assert all(answers[1:])


def test_unsupported_settings_are_an_error(imported: Model, theirs: Translator) -> None:
    with pytest.raises(ConfigError, match=r"`--inference.precision` is bfloat16, .* Use int8 or float32\.$"):
        ctranslate2_translator(imported, "bfloat16")
    with pytest.raises(ConfigError, match=r"`--inference.sample` does not work with `--engine ctranslate2`"):
        theirs.translate(["one"], sample=True)
