"""Language codes in the forms that files, settings and clients use."""

import pytest

from dragoman.errors import ConfigError
from dragoman.languages import LANGUAGE_NAMES, check_language, is_code, language_code, main_language, normalize_code


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
    assert (normalize_code(code), main_language(code)) == (normal, main)


def test_every_language_with_two_letters_has_its_form_of_three() -> None:
    three = {"ha": "hau", "yo": "yor", "am": "amh", "zu": "zul", "rw": "kin", "ig": "ibo", "cs": "ces", "kk": "kaz"}
    assert {code: main_language(long) for code, long in three.items()} == {code: code for code in three}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cs", "cs"),
        ("EN_us", "en-US"),
        ("ces", "cs"),
        ("Czech", "cs"),
        ("german", "de"),
        ("Deutsch", "de"),
        ("日本語", "ja"),
        ("Upper Sorbian", "hsb"),
        ("Portuguese (Brazil)", "pt"),
        ("zh-Hant", "zh-Hant"),
        ("x-mine", "x-mine"),
        ("", ""),
    ],
)
def test_codes_and_names_are_accepted(text: str, code: str) -> None:
    assert check_language(text, "`--src-lang`") == code


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("czehc", "Did you mean Czech?"),
        ("cz", "Did you mean Czech (cs)?"),
        ("jp", "Did you mean Japanese (ja)?"),
        ("qq", "Write a code such as `cs`"),
        ("czech lang/../x", "Write a code such as `cs`"),
        ("xx", "Write a code such as `cs`"),
        ("und", "Write a code such as `cs`"),
        ("en-abcdefghijk", "Write a code such as `cs`"),
        ("../../etc", "Write a code such as `cs`"),
        ("x" * 10_000, "Write a code such as `cs`"),
    ],
)
def test_other_texts_are_refused(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=r"`--src-lang` is .*, which is not a language") as caught:
        check_language(text, "`--src-lang`")
    assert hint in str(caught.value)
    assert len(str(caught.value)) < 250


def test_every_name_is_converted_back_to_its_code() -> None:
    wrong = {code: found for code, name in LANGUAGE_NAMES.items() if (found := language_code(name)) != code}
    assert wrong.keys() <= {"pt-BR", "zh-Hans", "zh-Hant"}  # forms of one language
    assert all(map(is_code, LANGUAGE_NAMES))
