"""Codes and names of languages. Files, settings and clients write codes in many forms: EN, en_US, eng.

langcodes checks and converts codes. It is imported inside functions, because that takes 30 ms and most programs only
see common codes. Names are found in language_names.txt.gz.
"""

import difflib
import json
import re
import zlib
from functools import lru_cache
from pathlib import Path

from dragoman.errors import ConfigError

LANGUAGE_NAMES = dict(
    entry.split(" ", 1)
    for entry in (
        "af Afrikaans|am Amharic|ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian|ca Catalan|"
        "cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|"
        "fa Persian|fi Finnish|fo Faroese|fr French|fy Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gu Gujarati|"
        "ha Hausa|he Hebrew|hi Hindi|hr Croatian|hsb Upper Sorbian|hu Hungarian|hy Armenian|id Indonesian|ig Igbo|"
        "is Icelandic|it Italian|ja Japanese|jv Javanese|ka Georgian|kk Kazakh|km Khmer|kn Kannada|ko Korean|"
        "ku Kurdish|ky Kyrgyz|la Latin|lb Luxembourgish|lo Lao|lt Lithuanian|lv Latvian|mg Malagasy|mi Maori|"
        "mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|"
        "ne Nepali|nl Dutch|nn Norwegian Nynorsk|no Norwegian|oc Occitan|or Odia|pa Punjabi|pl Polish|ps Pashto|"
        "pt Portuguese|pt-BR Portuguese (Brazil)|ro Romanian|ru Russian|rw Kinyarwanda|sa Sanskrit|sd Sindhi|"
        "se Northern Sami|si Sinhala|sk Slovak|sl Slovenian|so Somali|sq Albanian|sr Serbian|st Sotho|sv Swedish|"
        "sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|tk Turkmen|tl Tagalog|tr Turkish|tt Tatar|ug Uyghur|"
        "uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|xh Xhosa|yi Yiddish|yo Yoruba|zh Chinese|zh-Hans Chinese|"
        "zh-Hant Chinese (traditional)|zu Zulu"
    ).split("|")
)
"""English names of languages by code."""
_CODES_OF_NAMES = {name.casefold(): code for code, name in reversed(LANGUAGE_NAMES.items())}
_CODE = re.compile(r"([A-Za-z]{2,3}|[xX](?=[-_]))([-_][A-Za-z0-9]{1,8})*")
NAME = re.compile(r"[^\W\d_]{3,}([ '’()-]+[^\W\d_]+)*\)?")
"""What may be the name of a language."""
_NAMES_FILE = Path(__file__).with_name("language_names.txt.gz")
_GZIP = 31
"""The format of a file for zlib. The module gzip takes 4 ms to import."""
_FEWEST_LETTERS = 4
"""The fewest letters of a name that is suggested for a longer text, as in "Hakka dialect"."""
_STANDARD = frozenset(LANGUAGE_NAMES) - {"tl"}
"""Codes that need no conversion. The standard code of Tagalog is fil."""
_NO_COUNTRY = re.compile(r"aa|q[m-z]|x[a-jl-z]|zz")
"""Codes that ISO 3166 leaves to private use."""
_NO_LANGUAGE = frozenset({"und", "mul", "zxx", "mis"})
_LONGEST_NAME = 60


@lru_cache(maxsize=1 << 12)
def language_code(text: str) -> str:
    """The standard code of a language, given by a code (EN, en_US, eng) or by its name in any language.

    Returns "" if `text` is not a language. Codes must be registered (BCP 47) or private, such as x-mine.
    """
    text = text.strip()
    if text in _STANDARD:
        return text
    if _CODE.fullmatch(text):
        import langcodes

        if not langcodes.tag_is_valid(text):
            return ""
        code = langcodes.standardize_tag(text)
        return "" if code.partition("-")[0] in _NO_LANGUAGE else code
    return _code_of_name(text) if len(text) <= _LONGEST_NAME and NAME.fullmatch(text) else ""


def _code_of_name(text: str) -> str:
    """The code of the language with exactly this name, but in any case, or ""."""
    if (own := text.casefold()) in _CODES_OF_NAMES:
        return _CODES_OF_NAMES[own]
    content = _all_names()
    place = content.find(f"|{_normalize_name(text)}|".encode())
    return content[content.rfind(b"\n", 0, place) + 1 : place].partition(b"|")[0].decode() if place >= 0 else ""


@lru_cache(maxsize=1)
def _all_names() -> bytes:
    """The lines of the file: a code and its names, each between bars. Reading takes 9 ms, once."""
    return zlib.decompress(_NAMES_FILE.read_bytes(), _GZIP)


def _normalize_name(text: str) -> str:
    return re.sub("[(),]", "", text.casefold().replace("’", "'").replace("-", " ")).strip()


def check_language(text: str, place: str) -> str:
    """The code of the language in a setting or flag, or "" if `text` is empty.

    Raises ConfigError, which starts with `place`, if `text` is not a language.
    """
    if not text or (code := language_code(text)):
        return code if text else ""
    near = _suggest_name(text) or _suggest_language_of_country(text)
    hint = f"Did you mean {near}?" if near else "Write a code such as `cs` or a name such as `Czech`."
    shown = json.dumps(text[:_LONGEST_NAME], ensure_ascii=False)
    raise ConfigError(
        f"{place} is {shown}, which is not a language. {hint} For a language without a code, write `x-` and "
        "up to 8 letters, such as `x-mine`."
    )


def _suggest_name(text: str) -> str:
    """The name most like a text: a common one, or the longest that the text begins with (Klingon for Klingonish)."""
    if _CODE.fullmatch(text):
        return ""
    name = text[:_LONGEST_NAME].title()
    near = difflib.get_close_matches(name, LANGUAGE_NAMES.values(), n=1)
    starts = (name[:end].strip() for end in range(len(name), _FEWEST_LETTERS - 1, -1))
    near += [start for start in starts if _code_of_name(start)][:1]
    best = max(near, key=lambda one: difflib.SequenceMatcher(None, name, one).ratio(), default="")
    return f"{best} ({_code_of_name(best)})" if best else ""


def _suggest_language_of_country(country: str) -> str:
    """The main language of a country, if `country` is a country code such as cz, dk or jp."""
    import langcodes

    if not re.fullmatch(r"[A-Za-z]{2}", country) or _NO_COUNTRY.fullmatch(country.lower()):
        return ""
    found = langcodes.Language.get(f"und-{country}")
    language = found.maximize().language if found.is_valid() else ""
    return name_with_code(language) if language else ""


def is_code(text: str) -> bool:
    """True for the code of a language, False for a name."""
    return bool(_CODE.fullmatch(text) and language_code(text))


_LONGEST_CODE = 8
"""Letters of a language in a code (RFC 5646). The codes of clients may be longer, and must not fill the cache."""


@lru_cache(maxsize=1 << 12)
def _two_letters(language: str) -> str:
    """The code with two letters if one exists. Mandarin becomes Chinese."""
    if language in _STANDARD:
        return language
    import langcodes

    if not langcodes.tag_is_valid(language):
        return language
    standard = langcodes.standardize_tag(language).partition("-")[0]
    return "zh" if standard == "cmn" else standard


def normalize_code(code: str) -> str:
    """The code in lower case, with hyphens and with two letters if possible: en-us for en_US and eng-US."""
    language, hyphen, region = code.strip().lower().replace("_", "-").partition("-")
    return (_two_letters(language) if len(language) <= _LONGEST_CODE else language) + hyphen + region


def main_language(code: str) -> str:
    """The code without its region: en for en-US and eng. A private code such as x-mine stays whole."""
    code = normalize_code(code)
    return code if code.startswith("x-") else code.partition("-")[0]


def language_name(code: str) -> str:
    """The English name of a language, or `code` itself if it has no name here."""
    return LANGUAGE_NAMES.get(code, code)


def name_with_code(code: str) -> str:
    """A language for a message: "Czech (cs)"."""
    return f"{language_name(main_language(code))} ({code})"
