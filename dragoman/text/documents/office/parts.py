"""Read the XML files inside an office file: find their paragraphs and other texts, keep everything else."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.office.atoms import (
    NO_RUN,
    Atom,
    FlatAtom,
    Mark,
    MarkKind,
    OfficeSegment,
    Piece,
    Text,
    Unit,
    has_letters,
)
from dragoman.text.documents.office.paragraph import Paragraph
from dragoman.text.documents.office.xml import ATTRIBUTE, XmlText, XmlToken, escape_attribute, escape_xml, unescape_xml

_FILE_NAME = re.compile(r"(?i)(?:.*\.(?:bmp|emf|gif|jpe?g|png|svg|tiff?|wmf)|\w+://\S+)\s*$")
"""What programs write as the alternative text of a picture."""


SOFT_HYPHEN = "\xad"


class AttributeText:
    """A text in an attribute, such as the alternative text of a picture."""

    __slots__ = ("_lead", "_trail", "source")
    nested: Sequence[Piece] = ()

    def __init__(self, text: str) -> None:
        stripped = text.strip()
        self._lead, _, self._trail = text.partition(stripped)
        self.source = MarkedText(stripped, ())

    def pieces(self, translation: str) -> Iterator[Piece]:
        """The value of the attribute. See `OfficeSegment`."""
        return iter([escape_attribute(self._lead + unescape_xml(translation) + self._trail)])


class PartReader(ABC):
    """Reads one XML file of an archive into pieces: XML that is kept, and segments.

    Sub-classes know the elements of their format.

    Attributes
    ----------
    end
        The end tag that `inside` met last.
    num_kept
        The number of paragraphs with letters that are kept because of their style.
    has_kept
        Whether text since the last paragraph was kept because of its style.
    """

    end: XmlToken
    spaces: ClassVar[Mapping[str, Literal["", "tab", "line"]]] = {}
    """The elements that are white space, and what ends there. See `Mark.ends`."""

    def __init__(self, xml: XmlText) -> None:
        self.xml, self.num_kept, self.has_kept = xml, 0, False
        self._tokens = xml.tokens()

    def read(self) -> list[Piece]:
        """The pieces of the whole file, in order."""
        return self._rest(1, [])

    @abstractmethod
    def paragraph(self, tag: XmlToken) -> Iterable[Piece]:
        """Read a paragraph, after its start tag, up to its end tag."""

    @abstractmethod
    def is_paragraph(self, tag: XmlToken) -> bool:
        """Whether a start tag starts a paragraph."""

    def keeps(self, tag: XmlToken) -> bool:
        """Whether nothing in the element is translated."""
        return tag.local("translate") == "no"

    def translated_attributes(self, tag: XmlToken) -> Sequence[str]:
        """The names, without prefix, of attributes with text."""
        return ()

    def inside(self) -> Iterator[XmlToken]:
        """The tokens inside of the element whose start tag was read last. Then `end` is its end tag.

        The caller must read the content of each child.
        """
        for token in self._tokens:
            if token.kind == "end":
                self.end = token
                return
            yield token

    def up_to(self, body: str) -> tuple[list[Piece], bool]:
        """The pieces up to the start tag of the child `body`, or to the end tag, and whether there is such a child."""
        pieces: list[Piece] = []
        for token in self.inside():
            if token.name == body and token.kind == "start":
                return [*pieces, token.raw], True
            pieces += self.element(token)
        return [*pieces, self.end.raw], False

    def element(self, tag: XmlToken) -> list[Piece]:
        """The pieces of the element with this start tag."""
        if self.keeps(tag):
            return [self.skip(tag)]
        pieces = self._tag(tag)
        return self._rest(1, pieces) if tag.kind == "start" else pieces

    def skip(self, tag: XmlToken) -> str:
        """The element with this start tag, without looking inside."""
        depth, stop = int(tag.kind == "start"), tag.stop
        while depth:
            token = next(self._tokens)
            depth += (token.kind == "start") - (token.kind == "end")
            stop = token.stop
        return self.xml.text[tag.start : stop]

    def segment(
        self, units: Sequence[Unit], atoms: list[Atom], serialize: Callable[[Iterable[FlatAtom]], list[Piece]]
    ) -> list[Piece]:
        """A paragraph as a segment, or as it is if it has no letters."""
        self.num_kept += self.has_kept and not has_letters(atoms)
        self.has_kept = False
        if has_letters(atoms):
            return [Paragraph(units, atoms, serialize)]
        return [piece for unit in units for piece in unit.raw]

    def plain(self) -> list[Piece]:
        """Read the text of an element without further elements, after its start tag, up to its end tag."""
        units = [Unit([token.raw], [Text(token.text)]) for token in self.inside()]
        return [*self.segment(units, [atom for unit in units for atom in unit.atoms], write_plain), self.end.raw]

    def point(self, name: str, raw: tuple[Piece, ...], run: int = NO_RUN, kind: MarkKind = "point") -> Unit:
        """An element with this name that is one mark."""
        return Unit(raw, (Mark(kind, raw, run, is_space=name in self.spaces, ends=self.spaces.get(name, "")),))

    def _rest(self, depth: int, pieces: list[Piece]) -> list[Piece]:
        """Read until `depth` elements are closed, or to the end."""
        for tag in self._tokens:
            if tag.kind == "start" and self.keeps(tag):
                pieces.append(self.skip(tag))
                self.num_kept += self.is_paragraph(tag)
            elif tag.kind == "start" and self.is_paragraph(tag):
                pieces += [*self._tag(tag), *self.paragraph(tag)]
            else:
                pieces += self._tag(tag)
                depth += (tag.kind == "start") - (tag.kind == "end")
                if depth == 0 and tag.kind == "end":
                    break
        return pieces

    def _tag(self, tag: XmlToken) -> list[Piece]:
        names = self.translated_attributes(tag) if tag.kind in ("start", "empty") else ()
        pieces: list[Piece] = []
        done = 0
        for match in ATTRIBUTE.finditer(tag.raw) if names else ():
            value = unescape_xml(match[2][1:-1])
            if match[1].rpartition(":")[2] in names and any(map(str.isalpha, value)) and not _FILE_NAME.match(value):
                pieces += [tag.raw[done : match.start(2) + 1], AttributeText(value)]
                done = match.end(2) - 1
        return [*pieces, tag.raw[done:]]


def write_plain(atoms: Iterable[FlatAtom]) -> list[Piece]:
    """The XML of text and marks without runs."""
    pieces: list[Piece] = []
    for atom in atoms:
        pieces += atom.raw if isinstance(atom, Mark) else [escape_xml(atom[0])]
    return pieces


def segments_of(pieces: Iterable[Piece]) -> Iterator[OfficeSegment]:
    """The segments among pieces and inside of paragraphs, in order."""
    for piece in pieces:
        if not isinstance(piece, str):
            yield piece
            yield from segments_of(piece.nested)


def write_pieces(pieces: Iterable[Piece], translations: dict[OfficeSegment, str]) -> Iterator[str]:
    """The XML of pieces with the translations of their segments."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            yield from write_pieces(piece.pieces(translations[piece]), translations)
