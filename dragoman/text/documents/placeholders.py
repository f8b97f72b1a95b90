"""Leaves out the parts of a text that are not translated: they become points among its markers (`markers.py`)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.text.documents.markers import MarkedText, Marker


class Placeholder(NamedTuple):
    """What stands at `start` to `stop` of a text and is left out; `head` is written in its place at last."""

    start: int
    stop: int
    head: str


def remove_placeholders(source: MarkedText, holes: Sequence[Placeholder]) -> MarkedText:
    """The text without the holes, which come in the order of the text. One that a mark begins or ends inside of stays.

    White space that would be doubled, or stand before punctuation, goes with a hole.
    """
    kept = _RemainingText(source.text)
    edges = sorted({edge for mark in source.marks for edge in (mark.start, mark.stop)})
    points: list[tuple[Placeholder, Marker]] = []
    for hole in holes:
        following = bisect_right(edges, hole.start)
        crossed = following < len(edges) and edges[following] < hole.stop
        if not crossed and hole.start >= kept.read:
            before, after = source.text[hole.start - 1 : hole.start], source.text[hole.stop : hole.stop + 1]
            place = kept.leave_out(hole.start, hole.stop)
            points.append((hole, Marker(place, place, hole.head, spaced=(before.isspace(), after.isspace()))))
    kept.read_to(len(source.text))
    return MarkedText("".join(kept.parts), _merge_markers(source, points, kept))


class _RemainingText:
    """A text that parts are left out of, and where the others were."""

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
        """Where the part was, in the new text."""
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
        """Where a character of the old text is in the new."""
        chunk = bisect_right(self._starts, old) - 1
        end = self._new_starts[chunk + 1] if chunk + 1 < len(self._starts) else self._length
        return min(self._new_starts[chunk] + old - self._starts[chunk], end)


def _merge_markers(
    source: MarkedText, points: Sequence[tuple[Placeholder, Marker]], kept: _RemainingText
) -> tuple[Marker, ...]:
    """All marks in the order of the text, each point inside the innermost mark around it."""
    marks = source.marks
    merged: list[Marker] = []
    numbers = {-1: -1}
    waiting, open_marks = list(reversed(points)), [-1]

    def add_points(until: int) -> None:
        while waiting and waiting[-1][0].start < until:
            hole, point = waiting.pop()
            while open_marks[-1] >= 0 and marks[open_marks[-1]].stop < hole.stop:
                open_marks.pop()
            merged.append(point._replace(parent=numbers[open_marks[-1]]))

    for number, mark in enumerate(marks):
        add_points(mark.start)
        while open_marks[-1] != mark.parent:
            open_marks.pop()
        numbers[number] = len(merged)
        start = kept.place(mark.start)
        stop = start if mark.start == mark.stop else max(start, kept.place(mark.stop))
        merged.append(mark._replace(start=start, stop=stop, parent=numbers[mark.parent]))
        open_marks.append(number)
    add_points(len(source.text) + 1)
    return tuple(merged)
