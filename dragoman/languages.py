"""Language codes, which files, settings and clients write in many forms: EN, en_US, eng."""

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
