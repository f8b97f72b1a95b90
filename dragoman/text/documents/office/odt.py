"""Read OpenDocument text, the XML of LibreOffice files (OpenDocument 1.3, part 3).

The text of a paragraph stands between tags. White space is read as in HTML. A span whose style changes nothing visible
does not cut a sentence.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import ClassVar

from dragoman.text.documents.office.atoms import Atom, Mark, Piece, Text, Unit, is_shown, join_units
from dragoman.text.documents.office.parts import SOFT_HYPHEN, PartReader, write_plain
from dragoman.text.documents.office.xml import XmlText, XmlToken

OPEN_NAMESPACES = {
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text",
    "urn:oasis:names:tc:opendocument:xmlns:office:1.0": "office",
    "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0": "svg",
    "http://purl.org/dc/elements/1.1/": "dc",
}
_PARAGRAPHS = frozenset("text:p text:h text:index-title-template svg:title svg:desc dc:title".split())
_CONTAINERS = frozenset(
    "text:span text:a text:meta text:ruby text:text-input text:placeholder loext:content-control".split()
)
_ATTRIBUTES = {
    "table:table-cell": ("string-value",),
    "loext:list-item": ("display-text",),
    **dict.fromkeys("form:button form:checkbox form:radio form:fixed-text form:frame".split(), ("label",)),
}
_KEPT = frozenset("text:tracked-changes office:annotation office:scripts office:font-face-decls".split())
_NUMBERS = frozenset(("float", "percentage", "currency"))
_FAMILIES = {
    "text:p": "paragraph",
    "text:h": "paragraph",
    "text:span": "text",
    "text:a": "text",
    "text:section": "section",
}
_RUN_SPACE = re.compile("[ \t\r\n]+")


class OpenDocumentReader(PartReader):
    """Reads one part of an OpenDocument file, or the title in the metadata of a file.

    Parameters
    ----------
    xml
        The part.
    kept
        The names of styles whose text is not translated.
    invisible
        The names of styles of spans that look like the text around them.
    comments
        Whether comments are translated.
    """

    spaces: ClassVar = {"text:s": "", "text:tab": "tab", "text:line-break": "line"}

    def __init__(
        self, xml: XmlText, kept: Collection[str] = (), invisible: Collection[str] = (), comments: bool = False
    ) -> None:
        super().__init__(xml)
        self._kept_styles, self._invisible, self._comments = kept, invisible, comments

    def is_paragraph(self, tag: XmlToken) -> bool:
        """Whether a start tag starts a paragraph."""
        return tag.name in _PARAGRAPHS

    def translated_attributes(self, tag: XmlToken) -> Sequence[str]:
        """The attributes that LibreOffice shows: the text of a cell, which it prefers, and those of controls."""
        return _ATTRIBUTES.get(tag.name, ())

    def keeps(self, tag: XmlToken) -> bool:
        """Whether nothing in the element is translated."""
        if tag.name == "office:annotation":
            return not self._comments
        if tag.local("value-type") in _NUMBERS or (tag.name == "text:section" and tag.local("display") == "none"):
            return True
        return tag.name in _KEPT or _style_of(tag) in self._kept_styles or super().keeps(tag)

    def paragraph(self, tag: XmlToken) -> list[Piece]:
        """Read a paragraph up to its end tag."""
        units, end = self._inline()
        units = list(_without_repeated_space(units))
        return [*self.segment(units, [atom for unit in units for atom in unit.atoms], write_plain), end.raw]

    def _inline(self) -> tuple[list[Unit], XmlToken]:
        """The units in an element of a paragraph, and its end tag."""
        units: list[Unit] = []
        for token in self.inside():
            if token.kind == "text":
                units.append(Unit([token.raw], [Text(_RUN_SPACE.sub(" ", token.text.replace(SOFT_HYPHEN, "")))]))
            elif token.kind == "other" or token.name == "text:soft-page-break":
                units.append(Unit([self.skip(token)]))
            elif token.kind == "start" and not self.keeps(token) and token.name in _CONTAINERS:
                units += self._container(token)
            else:
                units.append(self.point(token.name, tuple(self.element(token))))
                is_styled = _style_of(token) in self._kept_styles
                is_kept = is_styled and any(isinstance(atom, Mark) and is_shown(atom) for atom in units[-1].atoms)
                self.has_kept = self.has_kept or is_kept
        return units, self.end

    def _container(self, tag: XmlToken) -> list[Unit]:
        """The units of an element around text. What surrounds the base of a ruby belongs to its tags."""
        opened, has_base = self.up_to("text:ruby-base") if tag.name == "text:ruby" else ([], True)
        opened.insert(0, tag.raw)
        if not has_base:
            return [Unit(opened, [Mark("point", tuple(opened))])]
        units, end = self._inline()
        closed = [end.raw, *(self.up_to("")[0] if tag.name == "text:ruby" else ())]
        if tag.name == "text:span" and _style_of(tag) in self._invisible:
            return [join_units(units, opened, closed)]
        first, last = tuple(opened), tuple(closed)
        return [Unit(first, [Mark("open", first)]), *units, Unit(last, [Mark("close", last)])]


def _style_of(tag: XmlToken) -> str:
    """The name of the style of a text, with its family. "" for other elements."""
    return f"{_FAMILIES[tag.name]}/{tag.local('style-name')}" if tag.name in _FAMILIES else ""


def _without_repeated_space(units: Iterable[Unit]) -> Iterator[Unit]:
    """The units without white space that follows other white space, in text that is joined."""
    is_after_space = False
    for unit in units:
        atoms: list[Atom] = []
        for atom in unit.atoms:
            if isinstance(atom, Text):
                text = atom.text.removeprefix(" ") if is_after_space else atom.text
                is_after_space = text.endswith(" ") or (is_after_space and not text)
                atoms += [Text(text, atom.run)] if text else []
            else:
                is_after_space = False
                atoms.append(atom)
        yield unit._replace(atoms=atoms)
