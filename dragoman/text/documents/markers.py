"""Texts with markers: inline tags and untranslated parts, which the model does not see.

A document is a list of kept strings and such texts. `placement.py` puts the markers of a text in its translation.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import NamedTuple

_TAG = re.compile("<[^>]*>")
GAP = "…"
"""What a reader sees in place of text that is not translated."""
_POINT = "\0"
_POINTS = re.compile(f" ?{_POINT}+(?=[\\s.,;:!?…)]|$)|{_POINT}+")


class Marker(NamedTuple):
    """A marker: `head` goes before the characters `start` to `stop` of the source, `tail` after them.

    A point (`start` == `stop`) only has `head`. `parent` is the index of the enclosing marker, or -1. Markers are in
    text order, parents first. `spaced`: whether the source has white space before and after a point; the translation
    keeps it.
    """

    start: int
    stop: int
    head: str
    tail: str = ""
    parent: int = -1
    spaced: tuple[bool, bool] = (False, False)


class MarkedText(NamedTuple):
    """A text to translate, and the markers in it."""

    text: str
    markers: tuple[Marker, ...]


@dataclass(slots=True)
class MarkedDocument:
    """A document as a list of parts: strings are kept, texts are translated, and documents are parts of this one.

    `finish` is applied to the translated document, for example to wrap its lines.
    """

    parts: list["str | MarkedText | MarkedDocument"] = field(default_factory=list)
    finish: Callable[[str], str] = str

    @property
    def texts(self) -> list[MarkedText]:
        """The texts to translate, in order."""
        others = [part for part in self.parts if not isinstance(part, str)]
        return [text for one in others for text in (one.texts if isinstance(one, MarkedDocument) else [one])]

    @property
    def num_pieces(self) -> int:
        """The number of parts and markers, which all take memory."""
        others = [part for part in self.parts if not isinstance(part, str)]
        inner = sum(one.num_pieces if isinstance(one, MarkedDocument) else len(one.markers) for one in others)
        return len(self.parts) + inner

    def with_translations(self, translations: Iterable[str]) -> str:
        """The document with its texts replaced. Translations must have their markers, and be escaped in markup."""
        following = iter(translations)
        return self.finish("".join(_translated(part, following) for part in self.parts))


def _translated(part: str | MarkedText | MarkedDocument, following: Iterator[str]) -> str:
    if isinstance(part, MarkedDocument):
        return part.with_translations(following)
    return part if isinstance(part, str) else next(following)


def plain_text(source: MarkedText, translation: str, escape: Callable[[str], str], gap: str = _POINT) -> str:
    """The translation of a text as the reader sees it: without its markers, and unescaped.

    `gap`, such as `GAP`, replaces text that was kept, such as code. `escape` was applied to the text between the
    markers: `str`, or a function that escapes as HTML and XML do.
    """
    points = {one.head: gap if is_gap(one) else _POINT for one in source.markers if one.start == one.stop}
    parts = {part for one in source.markers for part in (one.head, one.tail) if part}
    for part in sorted(parts, key=len, reverse=True):  # one may be part of another
        translation = translation.replace(part, points.get(part, ""))
    translation = _POINTS.sub("", translation).strip() if parts else translation
    return translation if escape is str else unescape(translation)


def is_gap(marker: Marker) -> bool:
    """Whether a point has text that is not translated, or refers to such text in an office document."""
    is_reference = any(marker.spaced) and marker.head[1:-2].isdecimal()
    return marker.start == marker.stop and (is_reference or any(map(str.isalnum, _TAG.sub("", marker.head))))


def text_with_gaps(source: MarkedText) -> str:
    """The text with `GAP` in place of kept text."""
    text = source.text
    for marker in reversed([one for one in source.markers if is_gap(one)]):
        before, after = text[: marker.start].rstrip(), text[marker.start :].lstrip()
        text = f"{before}{' ' * marker.spaced[0]}{GAP}{' ' * marker.spaced[1]}{after}"
    return text.strip()


def remove_placeholders(source: MarkedText, placeholders: Sequence[Marker]) -> MarkedText:
    """The text without its placeholders, which must be in text order.

    The characters of a placeholder are not translated: the translation gets its `head` instead. A placeholder stays in
    the text if a marker starts or ends inside it. White space that would be doubled, or that would precede punctuation,
    is removed with the placeholder.
    """
    text, kept, edges = source.text, _RemainingText(source.text), marker_edges(source)
    points: list[tuple[Marker, Marker]] = []
    for placeholder in placeholders:
        start, stop, head, *_ = placeholder
        if not has_between(edges, start, stop) and start >= kept.read:
            spaced = text[start - 1 : start].isspace(), text[stop : stop + 1].isspace()
            place = kept.leave_out(start, stop)
            points.append((placeholder, Marker(place, place, head, spaced=spaced)))
    kept.read_to(len(text))
    return MarkedText("".join(kept.parts), _merge_markers(source, points, kept))


def marker_edges(source: MarkedText) -> list[int]:
    """All positions where a marker starts or ends, sorted."""
    return sorted({edge for marker in source.markers for edge in (marker.start, marker.stop)})


def has_between(edges: Sequence[int], start: int, stop: int) -> bool:
    """Whether one of the sorted edges is strictly inside a span."""
    place = bisect_right(edges, start)
    return place < len(edges) and edges[place] < stop


class _RemainingText:
    """A text without its removed parts, with a map from old to new positions."""

    def __init__(self, text: str) -> None:
        self.parts: list[str] = []
        self.read = 0
        self._text, self._length = text, 0
        self._starts, self._new_starts = [0], [0]

    def read_to(self, stop: int) -> None:
        self.parts.append(self._text[self.read : stop])
        self._length += stop - self.read
        self.read = stop

    def leave_out(self, start: int, stop: int) -> int:
        """Remove a part. Returns its position in the new text."""
        self.read_to(start)
        while self.parts and not self.parts[-1]:
            self.parts.pop()
        following = self._text[stop : stop + 1]
        if not self.parts or self.parts[-1][-1].isspace():
            if following.isspace():
                stop += 1
            elif self.parts and not following.isalnum():
                self.parts[-1] = self.parts[-1][:-1]
                self._length -= 1
        self.read = stop
        self._starts.append(stop)
        self._new_starts.append(self._length)
        return self._length

    def place(self, old: int) -> int:
        """The new position of a character of the old text."""
        chunk = bisect_right(self._starts, old) - 1
        end = self._new_starts[chunk + 1] if chunk + 1 < len(self._starts) else self._length
        return min(self._new_starts[chunk] + old - self._starts[chunk], end)


def _merge_markers(
    source: MarkedText, points: Sequence[tuple[Marker, Marker]], kept: _RemainingText
) -> tuple[Marker, ...]:
    """All markers in text order. The parent of a point is the innermost marker around it."""
    markers = source.markers
    merged: list[Marker] = []
    numbers = {-1: -1}
    waiting, open_markers = list(reversed(points)), [-1]

    def add_points(until: int) -> None:
        while waiting and waiting[-1][0].start < until:
            placeholder, point = waiting.pop()
            while open_markers[-1] >= 0 and markers[open_markers[-1]].stop < placeholder.stop:
                open_markers.pop()
            merged.append(point._replace(parent=numbers[open_markers[-1]]))

    for number, marker in enumerate(markers):
        add_points(marker.start)
        while open_markers[-1] != marker.parent:
            open_markers.pop()
        numbers[number] = len(merged)
        start = kept.place(marker.start)
        stop = start if marker.start == marker.stop else max(start, kept.place(marker.stop))
        merged.append(marker._replace(start=start, stop=stop, parent=numbers[marker.parent]))
        open_markers.append(number)
    add_points(len(source.text) + 1)
    return tuple(merged)
