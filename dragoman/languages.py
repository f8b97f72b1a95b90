"""Names of languages, and their codes, which files, settings and clients write in many forms: EN, en_US, eng."""

NAMES = dict(
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
"""In English, by code."""
# ISO 639-2 and 639-3 (of some languages both of 639-2's codes) to ISO 639-1, for those that corpora and models have
# most of.
_TWO_LETTERS = dict(
    entry.split(" ")
    for entry in (
        "afr af|ara ar|bel be|ben bn|bul bg|cat ca|ces cs|chi zh|cmn zh|cze cs|dan da|deu de|dut nl|ell el|eng en|"
        "epo eo|est et|eus eu|fas fa|fin fi|fra fr|fre fr|ger de|gle ga|glg gl|heb he|hin hi|hrv hr|hun hu|hye hy|"
        "ind id|isl is|ita it|jpn ja|kat ka|khm km|kor ko|lao lo|lat la|lit lt|lav lv|mar mr|mkd mk|mlt mt|msa ms|"
        "mya my|nld nl|nno nn|nob nb|nor no|pol pl|por pt|ron ro|rus ru|slk sk|slv sl|spa es|sqi sq|srp sr|swa sw|"
        "swe sv|tam ta|tel te|tgl tl|tha th|tur tr|ukr uk|urd ur|vie vi|yid yi|zho zh"
    ).split("|")
)


def normalised(code: str) -> str:
    """In lower case, with hyphens, and of two letters where there are such: en-us of en_US and of eng-US."""
    language, hyphen, region = code.strip().lower().replace("_", "-").partition("-")
    return _TWO_LETTERS.get(language, language) + hyphen + region


def main_language(code: str) -> str:
    """Without its region: en of en-US and of eng."""
    return normalised(code).partition("-")[0]


def name_of(code: str) -> str:
    """In English; the code itself where we know none."""
    return NAMES.get(code, code)
