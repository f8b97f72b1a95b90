"""Protected spans: parts of a text that a translation must keep unchanged. Find them, and check that they were kept.

Protected spans are URLs, e-mail addresses, markup tags and entities, template placeholders (``{name}``, ``${name}``,
``{{ name }}``, ``%s``, ``%(name)d``, ``<x id="1"/>``), ICU messages (``{count, plural, one {# file} other {# files}}``)
and numbers with a unit or a currency. Time is linear in the
length of the text: no expression starts twice inside the same run of characters.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from dragoman.text.documents.markers import MarkedText, Marker, has_between, marker_edges, remove_placeholders

_UNITS = (
    "km/h|m/s|kWh|mph|kHz|MHz|GHz|kbps|Mbps|hPa|kPa|rpm|km|cm|mm|µm|nm|kg|mg|µg|ml|cl|dl|kB|KB|MB|GB|TB|PB|kW|MW|GW|Wh|"
    "Hz|ms|min|mAh|°C|°F|K|m²|m³|km²|m|g|t|l|h|s|A|V|W|%|‰|°|€|\\$|£|¥|EUR|USD|GBP|CHF"
)
# An ICU message: {count, plural, one {# file} other {# files}}, nested up to five times. Possessive quantifiers, which
# never try again, keep the time linear.
_ICU_BODY = r"[^{}]*+"
for _ in range(5):
    _ICU_BODY = rf"(?:[^{{}}']|'[{{}}][^']*+'|'|\{{{_ICU_BODY}\}})*+"
_ICU = (
    r"\{\s{0,9}[\w.-]{1,80}\s{0,9},\s{0,9}(?:plural|select|selectordinal|number|date|time|choice|spellout|ordinal|duration)"
    rf"\b{_ICU_BODY}\}}"
)
_KINDS = (
    ("icu", _ICU),
    ("url", r"\b(?:https?|ftp|file|wss?)://[^\s<>\"]+|(?<![\w./@-])www\.[^\s<>\"]+|(?<!\w)mailto:[^\s<>\"]+"),
    ("email", r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?!\w)"),
    ("tag", r"<!--[^<>]{0,1000}-->|</?[A-Za-z][\w:.-]{0,60}(?:\s[^<>]{0,1000})?/?>"),
    ("entity", r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6});"),
    (
        "placeholder",
        r"\{\{[^{}\n]{1,80}\}\}|\$?\{ ?[^{}\s]{0,80} ?\}|%\{[^{}\s]{1,80}\}"
        r"|%\([^()\s]{1,80}\)[#0 +-]?[\d.]{0,8}[a-zA-Z]",
    ),
    ("printf", r"(?<![\w%])%(?:\d{1,2}\$)?[#0+-]{0,3}\d{0,4}(?:\.\d{1,4})?l{0,2}[@diouxXeEfFgGcs](?!\w)"),
    (
        "measure",
        rf"(?<![\w.,])[€$£¥]\s?\d[\d.,]{{0,30}}(?!\w)"
        rf"|(?<![\w.,])\d(?:[\d.,]{{0,29}}\d)?[ \u00a0\u202f]?(?:{_UNITS})(?!\w)",
    ),
)
_PROTECTED = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS))
# Every span has one of these. Most texts have none, and the search for them takes a tenth of the time.
_FIRST_CHARACTERS = re.compile(r"[{<&%@\d]|://|www\.|mailto:")
_AFTER_URL = ".,;:!?'’“”»*_。"
_CLOSING = {")": "(", "]": "[", "}": "{"}
_BRACKETS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "„": "“", "“": "”", "«": "»", "‘": "’"}
_BEGINNING = re.compile(r"\s*[:;,–—-]")
_NUMBER_MARKS = re.compile(r"[.,\s]")


class ProtectedSpan(NamedTuple):
    """The characters `start` to `stop` of a text, which must stay unchanged.

    `kind` is icu, url, email, tag, entity, placeholder, printf or measure.
    """

    start: int
    stop: int
    text: str
    kind: str


def find_protected_spans(text: str) -> list[ProtectedSpan]:
    """The protected spans of a text from left to right, none inside another."""
    if not _FIRST_CHARACTERS.search(text):
        return []
    found = []
    for match in _PROTECTED.finditer(text):
        kind, span = str(match.lastgroup), match.group()
        if kind in ("url", "measure"):
            span = _strip_sentence_punctuation(span)
        found.append(ProtectedSpan(match.start(), match.start() + len(span), span, kind))
    return found


def _strip_sentence_punctuation(span: str) -> str:
    """The span without trailing punctuation of the sentence. Closing brackets stay if the span opens them."""
    stop = len(span)
    unclosed = {opening: span.count(opening) - span.count(closing) for closing, opening in _CLOSING.items()}
    while stop > 1:
        last = span[stop - 1]
        if last in _CLOSING and unclosed[_CLOSING[last]] < 0:
            unclosed[_CLOSING[last]] += 1
        elif last not in _AFTER_URL:
            break
        stop -= 1
    return span[:stop]


def lost_spans(spans: list[ProtectedSpan], translation: str) -> list[str]:
    """The spans that the translation has more or less often than the source, each listed once.

    Numbers may use the separators of the target language: "3,5 km" equals "3.5 km".
    """
    found = Counter(_comparable_text(span) for span in find_protected_spans(translation))
    wanted = Counter(_comparable_text(span) for span in spans)
    first = {_comparable_text(span): span.text for span in reversed(spans)}
    return [first[written] for written in wanted if found[written] != wanted[written]]


def _comparable_text(span: ProtectedSpan) -> str:
    return _NUMBER_MARKS.sub("", span.text) if span.kind == "measure" else span.text


def remove_protected_spans(source: MarkedText, escape: Callable[[str], str] = str) -> MarkedText:
    """The text without its protected spans, which become point markers.

    Brackets or quotes around a span are removed with it. So is a colon or dash after a span that starts the text.
    """
    edges = marker_edges(source)
    placeholders: list[Marker] = []
    for span in find_protected_spans(source.text):
        wide = _include_surroundings(source.text, span.start, span.stop)
        start, stop = (span.start, span.stop) if has_between(edges, *wide) else wide
        placeholders.append(Marker(start, stop, escape(source.text[start:stop])))
    return remove_placeholders(source, placeholders)


def _include_surroundings(text: str, start: int, stop: int) -> tuple[int, int]:
    if start and _BRACKETS.get(text[start - 1]) == text[stop : stop + 1] != "":
        start, stop = start - 1, stop + 1
    if not text[:start].strip() and (following := _BEGINNING.match(text, stop)):
        stop = following.end()
    return start, stop
