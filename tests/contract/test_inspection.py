"""An inspection shows what translating computes, for trained and for imported models."""

import pytest

from dragoman.bundle import Model
from dragoman.inference.translator import Translator
from dragoman.records import Details
from dragoman.visualization.inspection.inspection import inspection_page
from dragoman.visualization.inspection.inspector import inspect_text


@pytest.mark.parametrize("place", [0, 100, 200])
def test_an_imported_model_is_inspected_like_a_trained_one(
    imported: Model, english_german: list[tuple[str, str]], place: int
) -> None:
    text = english_german[place][0]
    translator = Translator.from_models([imported])
    answer = translator.translate_detailed([text], details=Details(alignment=True))[0]
    inspection = inspect_text(imported, text)
    assert inspection.tgt.text == answer.text
    assert inspection.tgt.tokens == answer.candidates[0].tokens
    assert inspection.n_best[0].score == pytest.approx(answer.candidates[0].score, abs=1e-3)
    assert "".join(word.text for word in inspection.src.words) == text.replace(" ", "")
    assert answer.alignment is not None
    assert {tgt for _, tgt in answer.alignment} == set(range(len(answer.text.split())))
    assert inspection_page(inspection)
