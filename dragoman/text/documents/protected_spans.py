"""Pieces of a text that must come through a translation as they are, and whether they did.

Found are URLs, e-mail addresses, tags and entities of mark-up, placeholders of templates (``{name}``, ``${name}``,
``{{ name }}``, ``%s``, ``%(name)d``, ``<x id="1"/>``) and numbers with a unit or a currency. Time is linear in the
length of the text: no expression begins twice inside the same run of characters.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.placeholders import Placeholder, remove_placeholders

_UNITS = (
    "km/h|m/s|kWh|mph|kHz|MHz|GHz|kbps|Mbps|hPa|kPa|rpm|km|cm|mm|µm|nm|kg|mg|µg|ml|cl|dl|kB|KB|MB|GB|TB|PB|kW|MW|GW|Wh|"
    "Hz|ms|min|mAh|°C|°F|K|m²|m³|km²|m|g|t|l|h|s|A|V|W|%|‰|°|€|\\$|£|¥|EUR|USD|GBP|CHF"
)
_KINDS = (
    ("url", r"\b(?:https?|ftp|file|wss?)://[^\s<>\"]+|(?<![\w./@-])www\.[^\s<>\"]+|(?<!\w)mailto:[^\s<>\"]+"),
    ("email", r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?!\w)"),
    ("tag", r"<!--[^<>]{0,1000}-->|</?[A-Za-z][\w:.-]{0,60}(?:\s[^<>]{0,1000})?/?>"),
    ("entity", r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6});"),
    (
        "placeholder",
        r"\{\{[^{}\n]{1,80}\}\}|\$?\{[^{}\s]{0,80}\}|%\{[^{}\s]{1,80}\}|%\([^()\s]{1,80}\)[#0 +-]?[\d.]{0,8}[a-zA-Z]",
    ),
    ("printf", r"(?<![\w%])%(?:\d{1,2}\$)?[#0+-]{0,3}\d{0,4}(?:\.\d{1,4})?l{0,2}[@diouxXeEfFgGcs](?!\w)"),
    (
        "measure",
        rf"(?<![\w.,])[€$£¥]\s?\d[\d.,]{{0,30}}(?!\w)|(?<![\w.,])\d[\d.,]{{0,30}}[ \u00a0\u202f]?(?:{_UNITS})(?!\w)",
    ),
)
_PROTECTED = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _KINDS))
_AFTER_URL = ".,;:!?'’”»*_"
_CLOSING = {")": "(", "]": "[", "}": "{"}
_BRACKETS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "„": "“", "“": "”", "«": "»", "‘": "’"}
_BEGINNING = re.compile(r"\s*[:;,–—-]")
_NUMBER_MARKS = re.compile(r"[.,\s]")


class ProtectedSpan(NamedTuple):
    """What stands at `start` to `stop` of a text and must stay as it is. `kind`: url, email, tag, entity, ..."""

    start: int
    stop: int
    text: str
    kind: str


def find_protected_spans(text: str) -> list[ProtectedSpan]:
    """The pieces of a text from left to right, none inside another."""
    found = []
    for match in _PROTECTED.finditer(text):
        kind, piece = str(match.lastgroup), match.group()
        if kind in ("url", "measure"):
            piece = _strip_sentence_punctuation(piece)
        found.append(ProtectedSpan(match.start(), match.start() + len(piece), piece, kind))
    return found


def _strip_sentence_punctuation(piece: str) -> str:
    """Without the marks of the sentence around it: a URL's own brackets are balanced."""
    stop = len(piece)
    unclosed = {opening: piece.count(opening) - piece.count(closing) for closing, opening in _CLOSING.items()}
    while stop > 1:
        last = piece[stop - 1]
        if last in _CLOSING and unclosed[_CLOSING[last]] < 0:
            unclosed[_CLOSING[last]] += 1
        elif last not in _AFTER_URL:
            break
        stop -= 1
    return piece[:stop]


def lost_spans(pieces: list[ProtectedSpan], translation: str) -> list[str]:
    """The pieces that the translation does not have as often as the source, each once.

    A number may be written as the target language writes it: 3.5 km is there in "3,5 km".
    """
    found = Counter(_comparable_text(piece) for piece in find_protected_spans(translation))
    wanted = Counter(_comparable_text(piece) for piece in pieces)
    first = {_comparable_text(piece): piece.text for piece in reversed(pieces)}
    return [first[written] for written in wanted if found[written] != wanted[written]]


def _comparable_text(piece: ProtectedSpan) -> str:
    return _NUMBER_MARKS.sub("", piece.text) if piece.kind == "measure" else piece.text


def remove_protected_spans(source: MarkedText, escape: Callable[[str], str] = str) -> MarkedText:
    """The text without its pieces, which become points among the marks.

    With a piece go the brackets or quotes around it, and the colon or dash after one that begins the text.
    """
    edges = sorted({edge for mark in source.marks for edge in (mark.start, mark.stop)})
    holes: list[Placeholder] = []
    for piece in find_protected_spans(source.text):
        wide = _include_surroundings(source.text, piece.start, piece.stop)
        start, stop = (piece.start, piece.stop) if _has_between(edges, *wide) else wide
        holes.append(Placeholder(start, stop, escape(source.text[start:stop])))
    return remove_placeholders(source, holes)


def _has_between(edges: Sequence[int], start: int, stop: int) -> bool:
    place = bisect_right(edges, start)
    return place < len(edges) and edges[place] < stop


def _include_surroundings(text: str, start: int, stop: int) -> tuple[int, int]:
    if start and _BRACKETS.get(text[start - 1]) == text[stop : stop + 1] != "":
        start, stop = start - 1, stop + 1
    if not text[:start].strip() and (following := _BEGINNING.match(text, stop)):
        stop = following.end()
    return start, stop
