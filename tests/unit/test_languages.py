"""Language codes in the forms in which files, settings and clients write them."""

import pytest

from dragoman.languages import main_language, normalised


@pytest.mark.parametrize(
    ("code", "normal", "main"),
    [
        ("en", "en", "en"),
        (" EN_us ", "en-us", "en"),
        ("eng-US", "en-us", "en"),
        ("ger", "de", "de"),
        ("deu", "de", "de"),
        ("zh-Hant-TW", "zh-hant-tw", "zh"),
        ("hsb", "hsb", "hsb"),
        ("", "", ""),
    ],
)
def test_forms_of_a_code(code: str, normal: str, main: str) -> None:
    assert (normalised(code), main_language(code)) == (normal, main)
