"""Split a text that is too long for the model: at sentence ends, then clauses, then spaces, then anywhere.

Nothing is lost: the texts and separators of the segments, joined, are the text. Time is linear in its length, with a
logarithmic factor for cuts inside words.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

_CLOSERS = "\"'”’»›)\\]}）」』】〕》〉"
_WIDE_ENDS = "。！？｡"  # these end a sentence even without a space after them
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
SEARCHED_CHARS = 100_000
"""Characters that a regular expression searches in one call, during which other threads have to wait."""
_MAX_MARKS = 8


class Segment(NamedTuple):
    """A part of a text and the white space after it. Both may be empty."""

    text: str
    separator: str


def split_to_fit(text: str, length: Callable[[str], int], limit: int) -> list[Segment]:
    """Split a text into segments whose `length` is at most `limit`. A text that fits is one segment.

    Longer text is cut at sentence ends. A sentence that does not fit is cut after clauses, then at spaces, then
    anywhere. A segment exceeds the limit only if it is a single character.
    """
    if length(text) <= limit:
        return _segments([text])
    return _segments([part for sentence in split_sentences(text) for part in _fit(sentence, length, limit, _CUTS)])


def join_segments(segments: Sequence[Segment], translations: Sequence[str]) -> str:
    """Join the translations of the segments to one text, with the white space of the source (see `separators`)."""
    gaps = separators(segments, translations)
    return "".join(text + gap for text, gap in zip(translations, gaps, strict=True))


def separators(segments: Sequence[Segment], translations: Sequence[str]) -> list[str]:
    """The white space to put after the translation of each segment (see `separator_after`)."""
    return [separator_after(segments, index, text) for index, text in enumerate(translations)]


def separator_after(segments: Sequence[Segment], index: int, translation: str) -> str:
    """The white space to put after the translation of one segment: the white space after the segment.

    After a sentence that ends in 。 or similar without a space, a translation in a script with spaces gets one.
    """
    segment = segments[index]
    wide = segment.text[-1:] in _WIDE_ENDS and translation[-1:] not in _WIDE_ENDS
    glued = wide and not segment.separator and index < len(segments) - 1
    return " " if glued else segment.separator


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the white space after it. Line breaks end a sentence too."""
    return list(cut_at(text, sentence_ends(text)))


def sentence_ends(text: str) -> Iterator[int]:
    """Where the sentences of a text end, after the white space that follows them. Some positions may be repeated."""
    start = 0
    for stop in chain((match.end() for match in find_all(_BREAK, text)), (len(text),)):
        yield from _sentence_ends(text, start, stop)
        start = stop


def _sentence_ends(text: str, start: int, stop: int) -> Iterator[int]:
    for match in find_all(_END, text, start, stop):
        space = _SPACE.match(text, match.end(), stop)
        after = space.end() if space else match.end()
        wide = any(char in _WIDE_ENDS for char in match.group())
        if wide or (space and not _continues(text, match, after)):
            yield after
    yield stop


def _continues(text: str, mark: re.Match[str], after: int) -> bool:
    """Whether a sentence continues after a mark and a space: a lower-case letter follows, or an abbreviation precedes.

    Initials and ordinal numbers count as abbreviations.
    """
    if text[after : after + 1].islower():
        return True
    if mark.group() != ".":
        return False
    found = _LAST_WORD.search(text, max(0, mark.start() - _CONTEXT_CHARS), mark.start())
    word = found.group() if found else ""
    is_initial = len(word) == 1 and word.isalpha()
    is_ordinal = len(word) <= 2 and word.isdecimal()
    return is_initial or is_ordinal or word.lower() in _ABBREVIATIONS


def find_all(pattern: re.Pattern[str], text: str, start: int = 0, stop: int = sys.maxsize) -> Iterator[re.Match[str]]:
    """The matches in a text, searched in short calls, because other threads have to wait for a call. Few are cut."""
    for first in range(start, min(stop, len(text)), SEARCHED_CHARS):
        yield from pattern.finditer(text, first, min(stop, first + SEARCHED_CHARS))


def cut_at(text: str, ends: Iterable[int]) -> Iterator[str]:
    """The non-empty parts of a text that end at the given increasing positions."""
    start = 0
    for end in chain(ends, (len(text),)):
        if end > start:
            yield text[start:end]
            start = end


def _cut_clauses(text: str) -> Iterator[str]:
    ends = (m.end() for m in find_all(_CLAUSE, text) if m.group()[-1].isspace() or m.group()[-1] in _WIDE_CLAUSES)
    return cut_at(text, ends)


def _cut_words(text: str) -> Iterator[str]:
    return cut_at(text, (match.end() for match in find_all(_SPACE, text)))


def _cut_halves(text: str) -> Iterator[str]:
    """Two halves. The second does not start with a combining mark of the character before."""
    half = middle = len(text) // 2
    while middle < min(half + _MAX_MARKS, len(text) - 1) and _belongs_together(text[middle - 1 : middle + 1]):
        middle += 1
    return cut_at(text, [middle])


def _belongs_together(two: str) -> bool:
    return unicodedata.category(two[1]).startswith("M") or "\u200d" in two


_CUTS: tuple[Callable[[str], Iterator[str]], ...] = (_cut_clauses, _cut_words, _cut_halves)


def _fit(
    text: str, length: Callable[[str], int], limit: int, cuts: Sequence[Callable[[str], Iterator[str]]]
) -> list[str]:
    """Cut a text in the first of the ways that is fine enough, and join neighboring parts up to the limit."""
    if len(text) <= 1 or length(text.strip()) <= limit:
        return [text]
    cut, *finer = cuts
    parts = _pack(cut(text), length, limit) if finer else cut(text)
    return [piece for part in parts for piece in _fit(part, length, limit, finer or cuts)]


def _pack(parts: Iterable[str], length: Callable[[str], int], limit: int) -> Iterator[str]:
    """Join neighboring parts while the sum of their lengths is at most the limit."""
    group: list[str] = []
    left = 0
    for part in parts:
        size = length(part.strip())
        if group and size > left:
            yield "".join(group)
            group = []
        left = (left if group else limit) - size
        group.append(part)
    yield "".join(group)


def _segments(parts: Sequence[str]) -> list[Segment]:
    segments: list[Segment] = []
    for part in filter(None, parts):
        text = part.rstrip()
        if text != text.lstrip():
            segments.append(Segment("", part[: len(part) - len(part.lstrip())]))
        segments.append(Segment(text.lstrip(), part[len(text) :]))
    return segments
