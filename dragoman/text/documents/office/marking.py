"""Make the text of a paragraph: its marks become markers, and its white space single spaces.

The markers refer to marks by number: ``<0>`` and ``</0>`` around text, ``<1/>`` for a point. A point that the reader
sees, such as code or a page number, is like a word: it has spaces of its own. Other marks are on one side of a space.
A tab or the end of a short line becomes a line break, which ends a sentence.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

from dragoman.text.documents.markers import MarkedText, Marker
from dragoman.text.documents.office.atoms import Atom, Mark, Text, has_words, is_shown, is_space

_NO_MARKS = frozenset[str]()
"""The same empty set for all paragraphs, to save memory."""
_SHORT_LINE = 40
"""The characters of the longest line of an address, a poem or a form. Other lines are broken inside sentences."""


class Marking(NamedTuple):
    """The marks of a paragraph, and its text with references to them.

    Attributes
    ----------
    source
        The text with its markers.
    marks
        The mark of each reference, such as ``<0>``.
    sides
        References beside a space: 1 if the space is after the mark, -1 if it is before.
    shown
        References to points that are like words.
    only_space
        References to white space that the text does not have.
    """

    source: MarkedText
    marks: dict[str, Mark]
    sides: dict[str, int]
    shown: Collection[str]
    only_space: Collection[str]


def mark_text(atoms: Sequence[Atom]) -> Marking:
    """The marking of a paragraph without its edges. Only one-space texts and gaps are white space."""
    made = _MarkedAtoms(atoms)
    text = MarkedText("".join(made.text), tuple(map(made.moved, made.markers)))
    return Marking(text, made.marks, made.sides, made.shown or _NO_MARKS, made.only_space or _NO_MARKS)


class _MarkedAtoms:
    """Makes a `Marking`, atom by atom."""

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self.marks: dict[str, Mark] = {}
        self.sides: dict[str, int] = {}
        self.shown: set[str] = set()
        self.only_space: set[str] = set()
        self.text: list[str] = []
        self._length, self._ends_in_space, self._follows_space = 0, True, False
        self._dropped: list[int] = []
        self._near: list[str] = []
        self.markers: list[Marker] = []
        self._inside = [-1]
        self._has_short_lines = _longest_line(atoms) <= _SHORT_LINE
        last_word = max(number for number, atom in enumerate(atoms) if has_words(atom))
        letters = _letter_follows(atoms)
        for number, atom in enumerate(atoms):
            is_inside = number < last_word and self._length > 0
            if isinstance(atom, Mark) and atom.kind in ("open", "close", "word"):
                self._add_pair(atom)
            elif isinstance(atom, Text) and (not atom.text.isspace() or (is_inside and not self._ends_in_space)):
                self._add_text(atom.text)
            else:
                mark = atom if isinstance(atom, Mark) else Mark("point", parts=(atom,))
                if is_inside and self._follows_space and is_shown(mark) and not letters[number]:
                    self._add_shown(mark, is_space(atoms[number + 1]) and isinstance(atoms[number + 2], Text))
                else:
                    self._add_point(mark, is_inside)

    def _add_text(self, text: str) -> None:
        self.text.append(text)
        self._length += len(text)
        self._ends_in_space, self._follows_space = text.isspace(), text == " " and not self._near
        if self._ends_in_space:
            self.sides.update(dict.fromkeys(self._near, 1))
        self._near.clear()

    def _remember(self, key: str, mark: Mark) -> None:
        self.marks[key] = mark
        if self._ends_in_space and self._length:
            self.sides[key] = -1
        self._near.append(key)
        self._follows_space = False

    def _add_pair(self, mark: Mark) -> None:
        """Add the start or the end of a mark around text, or both for a word."""
        if mark.kind != "close":
            number = len(self.markers)
            self._remember(f"<{number}>", mark)
            self.markers.append(Marker(self._length, self._length, f"<{number}>", f"</{number}>", self._inside[-1]))
            self._inside.append(number)
        if mark.kind == "word":
            self._add_text("".join(part.text for part in mark.parts if isinstance(part, Text)))
        if mark.kind != "open":
            number = self._inside.pop()
            self._remember(f"</{number}>", mark)
            self.markers[number] = self.markers[number]._replace(stop=self._length)

    def _add_shown(self, mark: Mark, is_before_space: bool) -> None:
        """Add a point that is like a word. The space before it is part of the marker, not of the text."""
        key = f"<{len(self.markers)}/>"
        self.marks[key] = mark
        self.shown.add(key)
        spaced = True, is_before_space
        self.markers.append(Marker(self._length, self._length, key, "", self._inside[-1], spaced))
        self._dropped.append(self._length - 1)
        self.text[-1] = ""
        self._ends_in_space = self._follows_space = False

    def _add_point(self, mark: Mark, is_inside: bool) -> None:
        """Add another point. `is_inside` is whether text precedes and follows."""
        key = f"<{len(self.markers)}/>"
        if is_inside and mark.parts and all(isinstance(part, Text) and part.text.isspace() for part in mark.parts):
            self.only_space.add(key)
        mark.is_space = mark.is_space and not self._ends_in_space and is_inside
        self._remember(key, mark)
        self.markers.append(Marker(self._length, self._length, key, parent=self._inside[-1]))
        if mark.is_space:
            ends = {part.ends for part in (mark, *mark.parts) if isinstance(part, Mark)}
            self._add_text("\n" if "tab" in ends or ("line" in ends and self._has_short_lines) else " ")
            self._follows_space = False

    def moved(self, marker: Marker) -> Marker:
        """The marker in the text without the spaces that belong to points."""
        start, stop = (place - bisect_left(self._dropped, place) for place in (marker.start, marker.stop))
        return marker._replace(start=start, stop=stop)


def _letter_follows(atoms: Sequence[Atom]) -> list[bool]:
    """Whether the next character after each atom is a letter or digit."""
    found = [False]
    for atom in reversed(atoms[1:]):
        if isinstance(atom, Text):
            found.append(atom.text[0].isalnum())
        else:
            found.append(atom.kind == "word" or (found[-1] and not atom.is_space))
    return found[::-1]


def _longest_line(atoms: Sequence[Atom]) -> int:
    """The characters of the longest line of a paragraph."""
    lengths = [0]
    for atom in atoms:
        parts = (atom,) if isinstance(atom, Text) else (atom, *atom.parts)
        if any(isinstance(part, Mark) and part.ends == "line" for part in parts):
            lengths.append(0)
        lengths[-1] += sum(len(part.text) for part in parts if isinstance(part, Text))
    return max(lengths)
