"""Cutting a text that is too long for the model: at sentence ends, then clauses, then spaces, then anywhere.

Nothing is lost: texts and separators of the segments, put together, are the text. Time is linear in its length
(but for cuts inside words, which add a logarithm).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

_CLOSERS = "\"'”’»›)\\]}）」』】〕》〉"
_WIDE_ENDS = "。！？｡"  # end a sentence with or without a space after them
_END = re.compile(f"[.!?…‽⁇⁈⁉।॥؟۔։።፧።။។៕᙮᠃{_WIDE_ENDS}]+[{_CLOSERS}]*")
_BREAK = re.compile(r"\n\s*")
_SPACE = re.compile(r"\s+")
_CLAUSE = re.compile(r"[,;:،؛፣፤—–，、；：]+\s*")
_WIDE_CLAUSES = "，、；："
_LAST_WORD = re.compile(r"[\w.]*$")
_ABBREVIATIONS = frozenset(
    (
        "mr mrs ms dr prof st sr jr vs no nos vol fig figs eq sec ch pp ed eds al cf ca approx dept inc ltd corp co "
        "gen col capt lt sgt rev hon jan feb mar apr jun jul aug sep sept oct nov dec e.g i.e z.b d.h u.a o.ä s.o nr "
        "bzw usw hr fr str tel abs art bd evtl ggf inkl vgl zzgl mme mlle p.ex sra srta ud uds av ing sig dott núm tj"
    ).split()
)
_CONTEXT_CHARS = 16
_MAX_MARKS = 8


class Segment(NamedTuple):
    """A part of a text, and the white space between it and the next part. Both may be empty."""

    text: str
    separator: str


def split_to_fit(text: str, length: Callable[[str], int], limit: int) -> list[Segment]:
    """The text as it is where `length` of it is at most `limit`, else cut into segments that fit.

    Cuts lie at sentence ends; a sentence that still does not fit is cut after clauses, at spaces, and at last
    anywhere. A segment exceeds the limit only where a single character does.
    """
    if length(text) <= limit:
        return _segments([text])
    return _segments([part for sentence in split_sentences(text) for part in _fit(sentence, length, limit, _CUTS)])


def join_segments(segments: Sequence[Segment], translations: Sequence[str]) -> str:
    """Translations of the segments' texts as one text, with the separators of the source (`separators`)."""
    between = separators(segments, translations)
    return "".join(part for pair in zip(translations, between, strict=True) for part in pair)


def separators(segments: Sequence[Segment], translations: Sequence[str]) -> list[str]:
    """What follows the translation of each segment: what followed the segment.

    Sentences that followed each other without a space (。) get one where their translation is in a script with spaces.
    """
    found: list[str] = []
    for segment, translation in zip(segments, translations, strict=True):
        wide = segment.text[-1:] in _WIDE_ENDS and translation[-1:] not in _WIDE_ENDS
        glued = wide and not segment.separator and segment is not segments[-1]
        found.append(" " if glued else segment.separator)
    return found


def split_sentences(text: str) -> list[str]:
    """The sentences, each with the white space after it; put together they are the text. Line breaks end one too."""
    return _cut(text, (end for start, stop in _lines(text) for end in _sentence_ends(text, start, stop)))


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each line, line break and white space after it included."""
    start = 0
    for match in _BREAK.finditer(text):
        yield start, match.end()
        start = match.end()
    yield start, len(text)


def _sentence_ends(text: str, start: int, stop: int) -> Iterator[int]:
    for match in _END.finditer(text, start, stop):
        space = _SPACE.match(text, match.end(), stop)
        after = space.end() if space else match.end()
        wide = any(char in _WIDE_ENDS for char in match.group())
        if wide or (space and not _continues(text, match, after)):
            yield after
    yield stop


def _continues(text: str, mark: re.Match[str], after: int) -> bool:
    """Whether the sentence goes on after a mark and a space: in small letters, or after an abbreviation or ordinal."""
    if text[after : after + 1].islower():
        return True
    if mark.group() != ".":
        return False
    found = _LAST_WORD.search(text, max(0, mark.start() - _CONTEXT_CHARS), mark.start())
    word = found.group() if found else ""
    is_initial = len(word) == 1 and word.isalpha()
    is_ordinal = len(word) <= 2 and word.isdecimal()
    return is_initial or is_ordinal or word.lower() in _ABBREVIATIONS


def _cut(text: str, ends: Iterable[int]) -> list[str]:
    """The parts of a text that end at rising positions; empty parts are left out."""
    parts: list[str] = []
    start = 0
    for end in (*ends, len(text)):
        if end > start:
            parts.append(text[start:end])
            start = end
    return parts


def _cut_clauses(text: str) -> list[str]:
    ends = (m.end() for m in _CLAUSE.finditer(text) if m.group()[-1].isspace() or m.group()[-1] in _WIDE_CLAUSES)
    return _cut(text, ends)


def _cut_words(text: str) -> list[str]:
    return _cut(text, (match.end() for match in _SPACE.finditer(text)))


def _cut_halves(text: str) -> list[str]:
    """Two halves, the second not beginning with a mark that belongs to the character before."""
    half = middle = len(text) // 2
    while middle < min(half + _MAX_MARKS, len(text) - 1) and _belongs_together(text[middle - 1 : middle + 1]):
        middle += 1
    return _cut(text, [middle])


def _belongs_together(two: str) -> bool:
    return unicodedata.category(two[1]).startswith("M") or "\u200d" in two


_CUTS: tuple[Callable[[str], list[str]], ...] = (_cut_clauses, _cut_words, _cut_halves)


def _fit(text: str, length: Callable[[str], int], limit: int, cuts: Sequence[Callable[[str], list[str]]]) -> list[str]:
    """Cuts a text with the first of the ways that is fine enough, and packs the parts as full as the limit allows."""
    if len(text) <= 1 or length(text.strip()) <= limit:
        return [text]
    cut, *finer = cuts
    parts = cut(text)
    if not finer:
        return [piece for part in parts for piece in _fit(part, length, limit, cuts)]
    packed = _pack(parts, length, limit)
    return [piece for part in packed for piece in _fit(part, length, limit, finer)]


def _pack(parts: Sequence[str], length: Callable[[str], int], limit: int) -> list[str]:
    """Neighbours joined while their lengths add up to at most the limit."""
    packed: list[list[str]] = []
    left = 0
    for part in parts:
        size = length(part.strip())
        if packed and size <= left:
            packed[-1].append(part)
            left -= size
        else:
            packed.append([part])
            left = limit - size
    return ["".join(group) for group in packed]


def _segments(parts: Sequence[str]) -> list[Segment]:
    segments: list[Segment] = []
    for part in filter(None, parts):
        text = part.rstrip()
        if text != text.lstrip():
            segments.append(Segment("", part[: len(part) - len(part.lstrip())]))
        segments.append(Segment(text.lstrip(), part[len(text) :]))
    return segments
