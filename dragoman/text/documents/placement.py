"""Place markers (tags, placeholders) of a source text in its translation.

The model does not see markers. Their places follow from weights between target and source words: link probabilities of
a lexicon, or attention. A span marker covers the run of target words with the most weight on the words inside it. A
point marker goes between the translations of its neighbors. Spans never cross, and each stays inside its parent, so the
tree of markers is that of the source. Only the order of siblings may change, as the order of words does.

Words are units (`text/tokenization/words.py`). A text that was translated in parts is placed part by part, in linear
time.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.text.documents.markers import MarkedText, Marker

_Weights = NDArray[np.float64]
Range = tuple[int, int]

_SAME_WORD = 0.5
"""Added to the weight between two words that are spelled the same: names, numbers, punctuation."""
_LEAST_WEIGHT = 0.4
"""A target word with less weight in all is translated from no source word, so its weights are not raised to 1."""
_TAKEN = -1e6
_CLOSING = ".,;:!?…)]}»”’%。、，！？"
_ORDER = 1.0
"""The weight of the word order for the place of a point, relative to its two neighbors."""


class AlignedPart(NamedTuple):
    """One part of a source and its translation: the spans of their words, and the weights between the words."""

    src_spans: Sequence[Range]
    tgt_spans: Sequence[Range]
    weights: _Weights
    """(target words, source words)"""


def insert_markers(
    source: MarkedText, translation: str, parts: Sequence[AlignedPart], escape: Callable[[str], str] = str
) -> str:
    """Return the translation with all markers of the source.

    Parameters
    ----------
    source
        The text that was translated, with its markers.
    translation
        Its translation, without markers.
    parts
        The alignment, part by part. Spans are positions in the whole source and the whole translation.
    escape
        Applied to the text between the markers.
    """
    src_spans = [span for part in parts for span in part.src_spans]
    tgt_spans = [span for part in parts for span in part.tgt_spans]
    if not tgt_spans:
        tgt_spans, src_spans = [(0, len(translation))], [(0, len(source.text))]
        parts = [AlignedPart(src_spans, tgt_spans, np.ones((1, 1)))]
    ranges: list[Range | None] = [None] * len(source.markers)
    starts = [marker.start for marker in source.markers]
    offset = 0
    for number, part in enumerate(parts):
        bounds = _bounds(parts, number, len(source.text))
        touching = _touching_markers(source.markers, starts, bounds)
        placed = _Part(source, translation, part, bounds).ranges(touching) if touching else {}
        for marker, (start, stop) in placed.items():
            known = ranges[marker]
            begin = offset + start if known is None or known[0] == known[1] else known[0]
            ranges[marker] = begin, offset + stop if stop > start or known is None else known[1]
        offset += len(part.tgt_spans)
    ranges_of_all = _nest(source.markers, ranges, offset)
    return _Page(source.markers, ranges_of_all, translation, tgt_spans, escape).render()


def _touching_markers(markers: Sequence[Marker], starts: Sequence[int], bounds: Range) -> list[int]:
    """The markers that touch the characters of `bounds`, in order.

    Does not visit all markers: a marker that starts before `bounds` and reaches into it is the last one before, or one
    of its ancestors.
    """
    first, last = bisect_left(starts, bounds[0]), bisect_left(starts, bounds[1])
    going_on = []
    number = first - 1
    while number >= 0:
        if markers[number].stop > bounds[0]:
            going_on.append(number)
        number = markers[number].parent
    return [*reversed(going_on), *range(first, last)]


def _nest(markers: Sequence[Marker], ranges: Sequence[Range | None], num_words: int) -> list[Range]:
    """Each range clipped to that of its parent. A marker without a range goes to the end of its parent."""
    nested: list[Range] = []
    for marker, own in zip(markers, ranges, strict=True):
        first, last = nested[marker.parent] if marker.parent >= 0 else (0, num_words)
        start, stop = own or (last, last)
        start = min(max(start, first), last)
        nested.append((start, min(max(stop, start), last)))
    return nested


def aligned_run(source: str, translation: str, part: AlignedPart, span: Range, first_free: int) -> Range:
    """The run of target words, from `first_free` on, that translates the source characters in `span`.

    It has at most as many words as the span: articles and prepositions are linked to the noun too.
    """
    marker = Marker(*span, "", "")
    places = _Part(MarkedText(source, (marker,)), translation, part, (-1, len(source) + 1))
    return places.closest(marker, (first_free, len(part.tgt_spans)))


def _bounds(parts: Sequence[AlignedPart], number: int, length: int) -> Range:
    """The source characters that belong to a part: from its first word to the first word of the next part."""
    firsts = [part.src_spans[0][0] if part.src_spans else 0 for part in parts[number : number + 2]]
    return (firsts[0] if number else -1), (firsts[1] if len(firsts) > 1 else length + 1)


class _Part:
    """Computes the places of markers in one part, as ranges of its target words."""

    def __init__(self, source: MarkedText, translation: str, part: AlignedPart, bounds: Range) -> None:
        self._markers, self._bounds = source.markers, bounds
        self._starts = np.array([start for start, _ in part.src_spans], np.int64)
        self._ends = [stop for _, stop in part.src_spans]
        src_words = [source.text[start:stop] for start, stop in part.src_spans]
        tgt_words = [translation[start:stop] for start, stop in part.tgt_spans]
        self._src_letters = [any(map(str.isalnum, word)) for word in src_words]
        self._tgt_letters = [any(map(str.isalnum, word)) for word in tgt_words]
        same = np.array([[_SAME_WORD * (src == tgt) for src in src_words] for tgt in tgt_words])
        same = same.reshape(part.weights.shape)
        weights = part.weights / np.maximum(part.weights.sum(1, keepdims=True), _LEAST_WEIGHT)
        self._weights = (weights + same) / (1.0 + same.sum(1, keepdims=True))
        self._before = np.concatenate((np.zeros((len(tgt_words), 1)), self._weights.cumsum(1)), axis=1)
        """(target words, source words + 1): cumulative weight on the source words before each position."""

    def ranges(self, numbers: Sequence[int]) -> dict[int, Range]:
        """The range of each marker, parents first. A marker whose parent does not touch the part has no range."""
        children = defaultdict[int, list[int]](list)
        for number in numbers:
            children[self._markers[number].parent].append(number)
        found: dict[int, Range] = {-1: (0, len(self._tgt_letters))}
        for parent in (-1, *numbers):
            if parent in found:
                found.update(self._placed(children[parent], found[parent]))
        del found[-1]
        return found

    def closest(self, marker: Marker, within: Range) -> Range:
        """The range of the only marker within a range of target words, with at most as many words as its source."""
        start, stop = self._placed([0], within)[0]
        first, last = self._words(marker)
        gain = self._gain((first, last))
        while stop - start > max(last - first, 1):
            if gain[start] < gain[stop - 1]:
                start += 1
            else:
                stop -= 1
        return start, stop

    def _placed(self, numbers: Sequence[int], within: Range) -> dict[int, Range]:
        """The ranges of sibling markers: first those that extend beyond the part, then by length, points last.

        Of markers with as many words, the one with the surest translation comes first.
        """
        found: dict[int, Range] = {}
        words = {number: self._words(self._markers[number]) for number in numbers}
        free = np.zeros(len(self._tgt_letters) + 1, bool)
        free[within[0] : within[1]] = True
        spans = [number for number in numbers if words[number][1] > words[number][0]]

        def order(number: int) -> tuple[bool, int, float]:
            start, stop = words[number]
            return not any(self._beyond(self._markers[number])), start - stop, -float(self._gain((start, stop)).max())

        spans.sort(key=order)
        for number in spans:
            found[number] = self._run(self._markers[number], words[number], free)
            free[found[number][0] : found[number][1]] = False
        gaps = np.ones(len(free) + 1, bool)
        for start, stop in found.values():
            gaps[start + 1 : stop] = False
        for number in numbers:
            empty = found.get(number, (0, 0))
            if empty[0] == empty[1]:
                gap = self._gap(words[number][0], within, gaps)
                found[number] = gap, gap
        return found

    def _words(self, marker: Marker) -> Range:
        """The range of the source words of a marker. A marker inside a word has the whole word."""
        start, stop = map(int, np.searchsorted(self._starts, (marker.start, marker.stop)))
        inside = 0 < start == stop and marker.start < min(marker.stop, self._ends[start - 1])
        return start - inside, stop

    def _gain(self, words: Range) -> _Weights:
        """The weight of each target word on a range of source words, (target words,)."""
        gain: _Weights = self._before[:, words[1]] - self._before[:, words[0]]
        return gain

    def _beyond(self, marker: Marker) -> tuple[bool, bool]:
        """Whether the marker starts before the part, and whether it ends after the part."""
        return marker.start < self._bounds[0], marker.stop > self._bounds[1]

    def _run(self, marker: Marker, words: Range, free: NDArray[np.bool_]) -> Range:
        """The run of free target words with the most weight on the marker's source words. Empty if no word is free."""
        places = np.flatnonzero(free)
        if not places.size:
            return 0, 0
        first, last = int(places[0]), int(places[-1]) + 1
        early, late = self._beyond(marker)
        if words == (0, len(self._starts)) and last - first == places.size:
            return first, last
        gain = self._gain(words)
        sums = np.concatenate(([0.0], np.where(free[:-1], gain - 0.5, _TAKEN).cumsum()))
        if early:
            return first, first + 1 + int(sums[first + 1 : last + 1].argmax())
        if late:
            return first + int(sums[first:last].argmin()), last
        lowest = np.minimum.accumulate(sums[first:last])
        stop = first + 1 + int((sums[first + 1 : last + 1] - lowest).argmax())
        best = first + int(sums[first:stop].argmin()), stop
        return self._without_punctuation(best, words)

    def _without_punctuation(self, run: Range, words: Range) -> Range:
        """The run without punctuation at its ends, except where the source has punctuation there too."""
        start, stop = run
        while stop - start > 1 and not self._tgt_letters[stop - 1] and self._src_letters[words[1] - 1]:
            stop -= 1
        while stop - start > 1 and not self._tgt_letters[start] and self._src_letters[words[0]]:
            start += 1
        return start, stop

    def _edge(self, word: int, within: Range) -> int | None:
        """The place of a point at the start of its text, or at the end (before final punctuation). Else None."""
        if word == 0:
            return within[0]
        if any(self._src_letters[word:]):
            return None
        place = within[1]
        while place > max(within[0], within[1] - len(self._src_letters) + word) and not self._tgt_letters[place - 1]:
            place -= 1
        return place

    def _gap(self, word: int, within: Range, gaps: NDArray[np.bool_]) -> int:
        """The target word before which to put a point that precedes source word `word`."""
        num_src, first, last = len(self._starts), *within
        edge = self._edge(word, within)
        if edge is not None and gaps[edge]:
            return edge
        left = self._weights[:, word - 1] if word else np.zeros(len(self._weights))
        right = self._weights[:, word] if word < num_src else np.zeros(len(self._weights))
        looked = self._before[:, word]
        # Words before the gap should be linked to the source before the point, words after it to the rest.
        order = np.concatenate(([0.0], np.cumsum(2 * looked - 1))) / max(len(looked), 1)
        after_left = np.concatenate(([float(word == 0)], left))
        score = _ORDER * order + after_left + np.concatenate((right, [float(word == num_src)]))
        choices = [gap for gap in range(first, last + 1) if gaps[gap]]
        return max(choices, key=lambda gap: float(score[gap]), default=first)


class _Page:
    """The text with every marker at its range of words, written from left to right.

    The methods call each other instead of functions inside of one: those would keep a large document in memory until
    garbage is collected.
    """

    def __init__(
        self,
        markers: Sequence[Marker],
        ranges: Sequence[Range],
        text: str,
        spans: Sequence[Range],
        escape: Callable[[str], str],
    ) -> None:
        self._markers, self._ranges, self._text, self._spans, self._escape = markers, ranges, text, spans, escape
        self._children = defaultdict[int, list[int]](list)
        for number in sorted(range(len(markers)), key=lambda one: (ranges[one], one)):
            self._children[markers[number].parent].append(number)
        self._parts: list[str] = []
        self._place, self._ends_in_space, self._wants_space = 0, True, False

    def render(self) -> str:
        for number in self._children[-1]:
            self._add_marker(number)
        self._add_text_to(len(self._text))
        return "".join(self._parts)

    def _add_marker(self, number: int) -> None:
        marker, (start, stop) = self._markers[number], self._ranges[number]
        before = self._spans[start - 1][1] if start else 0
        if marker.start == marker.stop and not self._children[number]:
            self._add_text_to(before)
            self._add_point(marker)
            return
        self._add_text_to(self._spans[start][0] if stop > start else before)
        self._add(marker.head)
        for child in self._children[number]:
            self._add_marker(child)
        self._add_text_to(self._spans[stop - 1][1] if stop > start else 0)
        self._add(marker.tail)

    def _add_text_to(self, place: int) -> None:
        if place > self._place:
            text = self._text[self._place : place]
            if self._wants_space and not text[0].isspace() and text[0] not in _CLOSING:
                self._add(" ")
            self._add(self._escape(text))
            self._place = place

    def _add_point(self, marker: Marker) -> None:
        if (marker.spaced[0] or self._wants_space) and not self._ends_in_space:
            self._add(" ")
        self._add(marker.head + marker.tail)
        self._wants_space = marker.spaced[1]

    def _add(self, part: str) -> None:
        if part:
            self._parts.append(part)
            self._ends_in_space, self._wants_space = part[-1].isspace(), False
