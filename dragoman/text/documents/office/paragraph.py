"""Paragraphs of office files: a text with markers for the translator, and the translation in place of the text.

A translation has the markers in other places, and the same white space or none on either side of them. So each mark
goes to the side of the space where it was: the space in ``<0>bold </0>text`` stays bold.

Only units that differ from the original are written. The first and the last units of a paragraph often stay.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from dragoman.text.documents.office.atoms import (
    Atom,
    FlatAtom,
    Piece,
    Text,
    Unit,
    cut_at_space,
    enclose_formats,
    flat,
    join_space,
    join_words,
    keep_labels,
    main_format,
    split_edges,
)
from dragoman.text.documents.office.marking import mark_text
from dragoman.text.documents.office.xml import unescape_xml

_REFERENCE = re.compile(r"<(/?)(\d+)(/?)>|([^<]+)")

Serializer = Callable[[Iterable[FlatAtom]], list[Piece]]


class Paragraph:
    """A paragraph with something to translate.

    Parameters
    ----------
    units
        Its XML.
    atoms
        Its atoms, in which fields may be joined.
    serialize
        Makes XML of atoms.
    """

    __slots__ = ("_lead", "_marking", "_outer", "_serialize", "_trail", "_units", "source")

    def __init__(self, units: Sequence[Unit], atoms: list[Atom], serialize: Serializer) -> None:
        self._units, self._serialize = units, serialize
        lead, inside, trail = split_edges(keep_labels(list(cut_at_space(atoms))))
        self._lead, self._trail = list(flat(lead)), list(flat(trail))
        self._outer = main_format(inside)
        inside = enclose_formats(list(cut_at_space(join_words(inside))), self._outer)
        self._marking = mark_text(list(join_space(inside, self._outer)))
        self.source = self._marking.source

    @property
    def nested(self) -> Iterator[Piece]:
        """The XML of the original. See `OfficeSegment`."""
        return (piece for unit in self._units for piece in unit.raw)

    def pieces(self, translation: str) -> Iterator[Piece]:
        """The XML with the translation. See `OfficeSegment`."""
        new = [*self._lead, *flat(self._atoms_of(translation)), *self._trail]
        first, start = _count_same((list(flat(unit.atoms)) for unit in self._units), new)
        rest = (list(flat(unit.atoms))[::-1] for unit in reversed(self._units[first:]))
        last, stop = _count_same(rest, new[start:][::-1])
        last, stop = len(self._units) - last, len(new) - stop
        same = first == last and start == stop
        yield from (piece for unit in self._units[:first] if same or not unit.fades for piece in unit.raw)
        yield from self._serialize(new[start:stop])
        yield from (piece for unit in self._units[last:] if same or not unit.fades for piece in unit.raw)

    def _atoms_of(self, translation: str) -> Iterator[Atom]:
        """The atoms of a translation with references to marks."""
        keys = [match.group() for match in _REFERENCE.finditer(translation) if not match[4]]
        if sorted(keys) != sorted(self._marking.marks):
            raise ValueError("the translation must have each marker of its source once")
        levels = [self._outer]
        word: list[str] | None = None
        for part in self._with_space_in_place(translation):
            mark = self._marking.marks.get(part)
            if mark is None:
                text = unescape_xml(part).replace("\n", " ")
                if word is None:
                    yield Text(text, levels[-1])
                else:
                    word.append(text)
            elif mark.kind == "word":
                if word is not None:
                    yield from _fill_word(mark.parts, "".join(word))
                word = [] if word is None else None
            else:
                yield mark
                if mark.kind == "open":
                    levels.append(mark.inner)
                elif mark.kind == "close":
                    levels.pop()

    def _with_space_in_place(self, translation: str) -> Iterator[str]:
        """The references and texts of a translation, with the space between them where the source has it."""
        keys, space, place = list[str](), "", 0
        for match in _REFERENCE.finditer(translation):
            text = match.group()
            if text in self._marking.shown:
                yield from self._spaced(keys, space, place)
                yield text
                keys, space, place = [], "", 0
                continue
            if not match[4]:
                keys.append(text)
                continue
            words = text.strip()
            place = place if space else len(keys)
            space += text[: text.find(words)] if words else text
            if words:
                yield from self._spaced(keys, space, place)
                yield words
                keys, space, place = [], text[text.find(words) + len(words) :], 0
        yield from self._spaced(keys, space, place)

    def _spaced(self, keys: Sequence[str], space: str, place: int) -> Iterator[str]:
        """References with the space among them, where most are on the same side of it as in the source."""
        if not space:
            keys = [key for key in keys if key not in self._marking.only_space]
        elif any(self._marking.marks[key].is_space for key in keys):
            space = ""
        sides = [self._marking.sides.get(key, 0) for key in keys]
        faults = list(accumulate((-side for side in sides), initial=sides.count(1)))
        best = min(range(len(faults)), key=lambda one: (faults[one], abs(one - place)))
        yield from filter(None, (*keys[:best], space, *keys[best:]))


def _count_same(units: Iterable[list[FlatAtom]], new: Sequence[FlatAtom]) -> tuple[int, int]:
    """The number of first units whose atoms are the first of `new`, and the number of their atoms."""
    number = place = 0
    for atoms in units:
        if new[place : place + len(atoms)] != atoms:
            break
        place += len(atoms)
        number += 1
    return number, place


def _fill_word(parts: Sequence[Atom], translation: str) -> Iterator[Atom]:
    """The parts of a word with the text of its translation: in the longest part, unless it is the same word."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    lengths = list(map(len, texts))
    if translation.casefold() != "".join(texts).casefold():
        longest = lengths.index(max(lengths))
        lengths = [len(translation) if number == longest else 0 for number in range(len(lengths))]
    stops = accumulate(lengths)
    start = 0
    for part in parts:
        if isinstance(part, Text):
            stop = next(stops)
            yield Text(translation[start:stop], part.run)
            start = stop
        else:
            yield part
