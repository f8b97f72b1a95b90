"""Language codes in the forms that files, settings and clients use."""

import gzip
import json
import subprocess
import sys
import tracemalloc
from functools import lru_cache
from pathlib import Path

import langcodes
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman import languages
from dragoman.errors import ConfigError
from dragoman.languages import (
    LANGUAGE_NAMES,
    NAME,
    check_language,
    is_code,
    language_code,
    main_language,
    normalize_code,
)


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
        ("İngilizce", "en"),
        ("Brazilian Portuguese", "pt-BR"),
        ("Simplified CHINESE", "zh-Hans"),
        ("tl", "fil"),
        ("Upper Sorbian", "hsb"),
        ("Portuguese (Brazil)", "pt-BR"),
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
        ("czehc", "Did you mean Czech (cs)?"),
        ("klingonish", "Did you mean Klingoni (tlh)? For a language without a code, write `x-` and up to 8 letters"),
        ("Hakka dialect", "Did you mean Hakka (hak)?"),
        ("deutsche", "Did you mean Deutsch (de)?"),
        ("x-klingonish", "write `x-` and up to 8 letters, such as `x-mine`"),
        ("cz", "Did you mean Czech (cs)?"),
        ("jp", "Did you mean Japanese (ja)?"),
        ("qq", "Write a code such as `cs`"),
        ("czech lang/../x", "Did you mean Czech (cs)?"),
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
    assert wrong == {"zh-Hans": "zh"}  # both are Chinese
    assert all(map(is_code, LANGUAGE_NAMES))


def library_code(text: str) -> str:
    """The code of a name according to langcodes with its data."""
    try:
        return langcodes.find(text).to_tag() if NAME.fullmatch(text) and len(text) <= 60 else ""
    except LookupError:
        return ""


@lru_cache(maxsize=1)
def library_names() -> dict[str, str]:
    names = pytest.importorskip("language_data.names", reason="the extra dev is not installed")
    trie = names.load_trie(str(Path(names.__file__).parent / "data/trie/und/name_to_language.marisa"))
    return {name: trie[name][0].decode() for name in trie.keys()}  # noqa: SIM118


def test_the_file_of_names_is_small() -> None:
    (file,) = Path(languages.__file__).parent.glob("language_names*")
    assert file.stat().st_size < 400_000


def test_the_file_has_every_name_of_langcodes() -> None:
    lines = gzip.decompress(languages._NAMES_FILE.read_bytes()).decode().splitlines()
    entries = [line.split("|") for line in lines if not line.startswith("#")]
    found = {name: code for code, *names in entries for name in names[:-1]}
    expected = {name: code for name, code in library_names().items() if NAME.fullmatch(name)}
    assert {name: found.get(name) for name in expected} == {
        name: langcodes.standardize_tag(code) if "-" in code else code for name, code in expected.items()
    }


@given(st.data())
def test_names_mean_what_they_mean_in_langcodes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*library_names()]))
    change = data.draw(st.sampled_from([str, str.title, str.upper, lambda text: text[:-1], lambda text: text[1:]]))
    text = change(name) + data.draw(st.sampled_from(["", "isch", " language", " (formal)", "-x"]))
    assume(not languages._CODE.fullmatch(text.strip()))
    is_whole = languages._normalize_name(text.strip()) in library_names()  # the library also takes the start of a text
    assert language_code(text) == (library_code(text.strip()) if is_whole else "")


def test_common_codes_are_their_own_standard_form() -> None:
    assert [langcodes.standardize_tag(code) for code in languages._STANDARD] == list(languages._STANDARD)


def test_common_codes_do_not_import_langcodes() -> None:
    program = """
import json, sys
from dragoman.languages import LANGUAGE_NAMES, check_language, language_code, main_language, name_with_code
for code in LANGUAGE_NAMES.keys() - {"tl"}:
    check_language(code, ""), main_language(code), name_with_code(code)
language_code("Tschechisch")
json.dump([name for name in ("langcodes", "language_data") if name in sys.modules], sys.stdout)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_long_codes_of_clients_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            languages.normalize_code(f"{number:x<200000}")
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
