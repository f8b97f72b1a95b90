"""What a paragraph of an office file consists of, and how it is prepared for translation.

An atom is text in one format, or a mark: everything between texts, such as a tag, a picture or a tab. A unit is the XML
of some atoms, which must be kept or replaced as a whole. XML that has nested paragraphs is a list of pieces.

Each step of the preparation takes and returns atoms: cut at white space, without edges, words joined over marks,
formats as marks, white space as gaps. Joined, they have the same characters and marks in the same order.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple, Protocol

from dragoman.text.documents.markers import MarkedText
from dragoman.text.tokenization.words import UNSPACED

_UNSEEN = re.compile(r"<\w+:delText\b[^>]*>[^<]*|<[^>]*>")
_FIRST_LETTERS = re.compile(rf"\A[^\W_{UNSPACED}]+")
_LAST_LETTERS = re.compile(rf"[^\W_{UNSPACED}]+\Z")
_CLOSING = ",;:."
_SPACE = re.compile(r"(\A\s+|\s+\Z|\s{2,}|[^\S ])")
"""White space other than a single space between words."""
_LABEL = re.compile(r"\(?(?:[^\W\d_]|[ivxIVX]{1,5})[.)]")
_LEADERS = re.compile(r"([_.…]*(?:_{3}|\.{4}|…{2})[_.…]*)")
NO_RUN = -1
"""The format of a mark outside of runs."""

MarkKind = Literal["point", "gap", "word", "open", "close", "begin", "code", "separate", "end"]


class OfficeSegment(Protocol):
    """A part of a file that is translated at once."""

    @property
    def source(self) -> MarkedText:
        """What to translate, with references to its marks as markers."""

    @property
    def nested(self) -> "Iterable[Piece]":
        """The XML of the original, which may have segments of its own."""

    def pieces(self, translation: str) -> "Iterable[Piece]":
        """The XML of the translation, whose text must be escaped, and whose markers must be inserted."""


Piece = str | OfficeSegment


class Text(NamedTuple):
    """Characters in one format. A format is a number, the same for formats that look the same."""

    text: str
    run: int = 0


@dataclass(eq=False, slots=True)
class Mark:
    """Anything between texts. The same mark occurs once, so marks are compared by identity.

    Attributes
    ----------
    kind
        A point is kept as it is. A gap is white space that is more than one space. A word has marks inside. The content
        between "open" and "close" is translated. The others are the parts of a field.
    raw
        The XML. A mark without it changes the format only.
    run
        The format of the run that must surround the XML, or `NO_RUN`.
    inner
        For "open", the format of text directly inside.
    parts
        The atoms of a mark made of several.
    is_space
        Whether it separates words: a tab, a line break, or a gap for which the text has a space.
    ends
        What ends there, and a sentence with it: a cell of text at a "tab", or a "line".
    """

    kind: MarkKind
    raw: tuple[Piece, ...] = ()
    run: int = NO_RUN
    inner: int = 0
    parts: "tuple[Atom, ...]" = ()
    is_space: bool = False
    ends: Literal["", "tab", "line"] = ""


Atom = Text | Mark
FlatAtom = tuple[str, int] | Mark


def flat(atoms: Iterable[Atom]) -> Iterator[FlatAtom]:
    """The single characters, each with its format, and the marks that have XML."""
    for atom in atoms:
        if isinstance(atom, Text):
            yield from ((character, atom.run) for character in atom.text)
        elif atom.parts:
            yield from flat(atom.parts)
        elif atom.raw:
            yield atom


def is_shown(mark: Mark) -> bool:
    """Whether a point has text that the reader sees between others, such as code or a page number."""
    atoms = mark.parts or (mark,)
    raws = [raw for atom in atoms if isinstance(atom, Mark) for raw in atom.raw]
    texts = [atom.text for atom in atoms if isinstance(atom, Text)]
    texts += [_UNSEEN.sub("", raw) if isinstance(raw, str) else "nested" for raw in raws]
    return not mark.is_space and any(text and not text.isspace() for text in texts)


class Unit(NamedTuple):
    """The XML of some atoms. If the paragraph changes, a unit that `fades` is left out: a result of spell checking."""

    raw: Sequence[Piece]
    atoms: Sequence[Atom] = ()
    fades: bool = False


def join_units(units: Sequence[Unit], before: Sequence[Piece] = (), after: Sequence[Piece] = ()) -> Unit:
    """All units as one, with the XML around them."""
    raw = [*before, *(piece for unit in units for piece in unit.raw), *after]
    return Unit(raw, [atom for unit in units for atom in unit.atoms])


def has_letters(atoms: Iterable[Atom]) -> bool:
    """Whether there is anything to translate."""
    return any(isinstance(atom, Text) and any(map(str.isalpha, atom.text)) for atom in atoms)


def cut_at_space(atoms: Iterable[Atom]) -> Iterator[Atom]:
    """The atoms with each text in one format cut into words with single spaces between, and other white space.

    Lines to write on, and dots that lead to the next column, are points.
    """
    for run, group in groupby(atoms, key=lambda atom: atom.run if isinstance(atom, Text) else None):
        if run is None:
            yield from group
            continue
        joined = "".join(atom.text for atom in group if isinstance(atom, Text))
        for number, part in enumerate(_LEADERS.split(joined)):
            if number % 2:
                yield Mark("point", parts=(Text(part, run),))
            else:
                yield from (Text(chunk, run) for chunk in _SPACE.split(part) if chunk)


def keep_labels(atoms: Sequence[Atom]) -> list[Atom]:
    """The atoms with the texts between tabs that have no words as points, if others do: ``+49 30 1234``, ``(a)``."""
    cells = [[*group] for _, group in groupby(atoms, key=lambda atom: isinstance(atom, Mark) and atom.ends == "tab")]
    texts = ["".join(atom.text for atom in cell if isinstance(atom, Text)).strip() for cell in cells]
    labels = [bool(_LABEL.fullmatch(text) or not any(map(str.isalpha, text))) for text in texts]
    if all(labels):
        return list(atoms)
    return [
        Mark("point", parts=(atom,)) if is_label and isinstance(atom, Text) and not atom.text.isspace() else atom
        for cell, is_label in zip(cells, labels, strict=True)
        for atom in cell
    ]


def split_edges(atoms: Sequence[Atom]) -> tuple[list[Atom], list[Atom], list[Atom]]:
    """The atoms before the text to translate, those with the text, and those after it.

    Numbers with a tab, as in front of a heading and after an entry of a table of contents, belong to the edges.
    """
    lead: list[Atom] = []
    trail: list[Atom] = []
    while True:
        size = _edge_size(atoms, _CLOSING)
        lead += atoms[:size]
        atoms = atoms[size:]
        size = len(atoms) - _edge_size(atoms[::-1])
        trail[:0] = atoms[size:]
        atoms = atoms[:size]
        if not 0 < _closing(atoms, 0) == len(atoms) - 1:
            return lead, list(atoms), trail
        lead.append(atoms[0])
        trail.insert(0, atoms[-1])
        atoms = atoms[1:-1]


def _edge_size(atoms: Sequence[Atom], closing: str = "") -> int:
    """The number of atoms without text at the start, or up to the last tab before the first letter.

    The punctuation in `closing` belongs to them, if it follows one.
    """
    size, only_space = 0, True
    for number, atom in enumerate(atoms, 1):
        if has_letters([atom]) or (isinstance(atom, Mark) and atom.kind in ("open", "close")):
            break
        is_closing = isinstance(atom, Text) and number > 1 and not atom.text.strip(closing)
        only_space = only_space and (isinstance(atom, Mark) or atom.text.isspace() or is_closing)
        if only_space or (isinstance(atom, Mark) and atom.is_space):
            size = number
    return size


def _closing(atoms: Sequence[Atom], start: int) -> int:
    """The number of the mark that closes what the mark at `start` opens. `start` for other atoms."""
    depth = 0
    for number in range(start, len(atoms)):
        atom = atoms[number]
        if isinstance(atom, Mark):
            depth += (atom.kind == "open") - (atom.kind == "close")
        if not depth:
            return number
    return start


def join_words(atoms: Sequence[Atom]) -> list[Atom]:
    """The atoms with each word that has marks inside as one mark."""
    joined = list(atoms)
    found: list[Atom] = []
    number = 0
    while number < len(joined):
        stop = _word_end(joined, number)
        if stop is None:
            found.append(joined[number])
            number += 1
            continue
        first, last = joined[number], joined[stop]
        assert isinstance(first, Text)
        assert isinstance(last, Text)
        start, end = len(_LAST_LETTERS.sub("", first.text)), len(last.text) - len(_FIRST_LETTERS.sub("", last.text))
        found += [Text(first.text[:start], first.run)] if start else []
        inside = [Text(first.text[start:], first.run), *joined[number + 1 : stop], Text(last.text[:end], last.run)]
        found.append(Mark("word", parts=tuple(inside)))
        joined[stop] = Text(last.text[end:], last.run)
        number = stop + (end == len(last.text))
    return found


def _word_end(atoms: Sequence[Atom], first: int) -> int | None:
    """The number of the text where the word ends that is at the end of the first text. None if it ends there."""
    atom, depth, stop = atoms[first], 0, None
    if not isinstance(atom, Text) or not _LAST_LETTERS.search(atom.text):
        return None
    for number in range(first + 1, len(atoms)):
        atom = atoms[number]
        if isinstance(atom, Text):
            letters = _FIRST_LETTERS.match(atom.text)
            stop = number if letters and depth == 0 else stop
            if not letters or letters.end() < len(atom.text):
                return stop
            continue
        depth += (atom.kind == "open") - (atom.kind == "close")
        if atom.is_space or depth < 0:
            return stop
    return stop


def main_format(atoms: Iterable[Atom], otherwise: int = 0) -> int:
    """The format of most letters and digits, or `otherwise` if there are none."""
    counts = Counter[int]()
    for atom in atoms:
        if isinstance(atom, Text):
            counts[atom.run] += sum(map(str.isalnum, atom.text))
    return max(counts, key=lambda run: counts[run]) if any(counts.values()) else otherwise


def enclose_formats(atoms: Sequence[Atom], outer: int) -> list[Atom]:
    """The atoms with marks around all text that is not in the main format of its level.

    Sets the main format of each mark that opens a level. `outer` is that of the atoms themselves.
    """
    found: list[Atom] = []
    same: list[Atom] = []
    levels, run = [outer], outer

    def close_same() -> None:
        size = max((number for number, atom in enumerate(same, 1) if _run_of(atom) is not None), default=0)
        if run != levels[-1] and any(map(has_words, same)):
            same[size:size] = [Mark("close")]
            same.insert(0, Mark("open", inner=run))
        found.extend(same)
        same.clear()

    for number, atom in enumerate(atoms):
        own = _run_of(atom)
        if (own is not None and own != run) or (isinstance(atom, Mark) and atom.kind in ("open", "close")):
            close_same()
            run = levels[-1] if own is None else own
        if isinstance(atom, Mark) and atom.kind in ("open", "close"):
            found.append(atom)
            if atom.kind == "open":
                atom.inner = main_format(atoms[number : _closing(atoms, number)], levels[-1])
            levels = [*levels, atom.inner] if atom.kind == "open" else levels[:-1]
            run = levels[-1]
        else:
            same.append(atom)
    close_same()
    return found


def _run_of(atom: Atom) -> int | None:
    """The format of a text or a word. None for other marks."""
    if isinstance(atom, Text):
        return atom.run
    return main_format(atom.parts) if atom.kind == "word" else None


def has_words(atom: Atom) -> bool:
    """Whether the atom has text that is not white space, and which the translator sees."""
    return atom.kind == "word" if isinstance(atom, Mark) else not atom.text.isspace()


def is_space(atom: Atom) -> bool:
    """Whether the atom is white space: a text, a tab, a line break, or a gap."""
    return atom.text.isspace() if isinstance(atom, Text) else atom.is_space


def join_space(atoms: Iterable[Atom], outer: int) -> Iterator[Atom]:
    """The atoms with white space that is not one space in the format of its level as gaps."""
    levels = [outer]
    for is_gap, group in groupby(atoms, key=is_space):
        space = tuple(group)
        if not is_gap:
            for atom in space:
                if isinstance(atom, Mark) and atom.kind == "open":
                    levels.append(atom.inner)
                elif isinstance(atom, Mark) and atom.kind == "close":
                    levels.pop()
            yield from space
        elif space[0] in (Text(" ", levels[-1]), Text("\u00a0", levels[-1])) and len(space) == 1:
            yield from space
        else:
            yield Mark("gap", parts=space, is_space=True)
