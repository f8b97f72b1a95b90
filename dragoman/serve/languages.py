"""Names of languages, and the codes by which clients and models call them."""

from dragoman.languages import normalised

_NAMES = dict(
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
_BY_LOWER_CASE = {code.lower(): code for code in _NAMES}
_SAME = {"zh-hans": "zh", "zh": "zh-hans", "zt": "zh-hant", "zh-hant": "zt", "pb": "pt-br", "pt-br": "pb"}
"""LibreTranslate takes both of these for the same."""


def canonical(code: str) -> str:
    """A code as it is written in answers: ``EN``, ``eng`` and ``en`` are en, ``pt_br`` is pt-BR."""
    plain = normalised(code)
    return _BY_LOWER_CASE.get(plain, plain)


def found_in(code: str, served: list[str]) -> str | None:
    """The one of the served codes that is meant, or None."""
    by_lower_case = {one.lower(): one for one in served}
    wanted = canonical(code).lower()
    return by_lower_case.get(wanted) or by_lower_case.get(_SAME.get(wanted, ""))


def name_of(code: str) -> str:
    """In English; the code itself where we know none."""
    return _NAMES.get(code, code)
