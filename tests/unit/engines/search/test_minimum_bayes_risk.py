"""The utility equals sacreBLEU's sentence chrF, and the choice follows the definition."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.evaluation.metrics import sentence_chrf
from dragoman.inference.text_search import choose_least_risk, pairwise_chrf
from dragoman.inference.translator import Translator
from dragoman.records import Hypothesis

TEXTS = ["Ein Mann fährt Rad.", "Ein Mann fährt ein Rad.", "aaaa aaa", "aaaaaa", "", "x", "Zwei Hunde 𝔘 é"]


def assert_equal_to_sacrebleu(texts: list[str]) -> None:
    expected = [sentence_chrf([one] * len(texts), texts) for one in texts]
    np.testing.assert_allclose(pairwise_chrf(texts), np.array(expected).reshape(len(texts), -1), atol=1e-4)


@pytest.mark.parametrize("texts", [TEXTS, ["a"], ["", ""]])
def test_utility_equals_sentence_chrf_of_sacrebleu(texts: list[str]) -> None:
    assert_equal_to_sacrebleu(texts)


@given(st.lists(st.text("ab cß", max_size=12), min_size=1, max_size=6))
def test_utility_equals_sacrebleu_for_any_text(texts: list[str]) -> None:
    assert_equal_to_sacrebleu(texts)


class _Texts:
    """A tokenizer with one id for each text."""

    def detokenize(self, ids: Any) -> str:
        return TEXTS[ids[0]]


def test_chosen_sample_has_the_highest_mean_utility() -> None:
    numbers = [0, 1, 2, 1, 3, 6]
    samples = [Hypothesis((each,), (-1.0,), -1.0, -1.0, True) for each in numbers]
    chosen = choose_least_risk(samples, _Texts(), n_best=2)  # type: ignore[arg-type]
    texts = [TEXTS[each] for each in numbers]
    means = {text: float(np.mean(sentence_chrf([text] * len(texts), texts))) for text in texts}
    ranked = sorted(means, key=lambda text: -means[text])
    assert [TEXTS[hypothesis.ids[0]] for hypothesis in chosen] == ranked[:2]
    assert [hypothesis.score for hypothesis in chosen] == pytest.approx([means[text] for text in ranked[:2]])
    assert choose_least_risk([], _Texts(), n_best=2) == []  # type: ignore[arg-type]


def test_choice_of_a_translator_does_not_depend_on_other_texts(small_bundle: Any) -> None:
    translator = Translator.from_models([small_bundle])
    texts = ["one two", "three. four", ""]
    samples = translator.translate_detailed(texts, sample=True, n_best=8)
    found = translator.translate_detailed(texts, mbr_samples=8)
    for drawn, chosen in zip(samples[:2], found[:2], strict=True):
        candidates = [candidate.text for candidate in drawn.candidates]
        utilities = [float(np.mean(sentence_chrf([text] * 8, candidates))) for text in candidates]
        assert utilities[candidates.index(chosen.text)] == pytest.approx(max(utilities))
        assert chosen.candidates[0].score == pytest.approx(max(utilities), abs=1e-4)
    assert found[2].text == ""
    assert translator.translate(texts[:1], mbr_samples=8) == [found[0].text]
    with pytest.raises(ConfigError, match=r"`inference\.n_best` must be at most `inference\.mbr_samples`"):
        translator.translate(texts, mbr_samples=2, n_best=3)
