"""Read WordprocessingML, the XML of Word files (ECMA-376, part 1, section 17).

A paragraph has runs: texts with properties. Runs that look the same have one format, so a sentence is not cut where
Word notes who typed what. Formats, links, fields and everything else become marks.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from dragoman.text.documents.office.atoms import (
    NO_RUN,
    FlatAtom,
    Mark,
    MarkKind,
    Piece,
    Text,
    Unit,
    has_letters,
    join_units,
)
from dragoman.text.documents.office.fields import WordFields, is_translated
from dragoman.text.documents.office.parts import SOFT_HYPHEN, PartReader
from dragoman.text.documents.office.styles import OFF
from dragoman.text.documents.office.xml import ATTRIBUTE, XmlText, XmlToken, escape_xml, properties_in

WORD_NAMESPACES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing": "wp",
    "http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": "wp",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/drawingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c",
    "urn:schemas-microsoft-com:vml": "v",
}
_BODIES = {"w:sdt": "w:sdtContent", "w:ruby": "w:rubyBase"}
_CONTAINERS = frozenset(("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:customXml", "w:dir", "w:bdo", *_BODIES))
_PROPERTIES = frozenset("w:pPr w:smartTagPr w:customXmlPr".split())
_DELETED = frozenset("w:del w:moveFrom".split())
_INVISIBLE = frozenset("w:proofErr w:lastRenderedPageBreak w:softHyphen".split())
_NUMBERS = frozenset(("c:numCache", "c:numLit"))
_FIELD_KINDS: dict[str, MarkKind] = {"begin": "begin", "w:instrText": "code", "separate": "separate", "end": "end"}
_ATTRIBUTES = {
    "wp:docPr": ("descr", "title"),
    "w:tblCaption": ("val",),
    "w:tblDescription": ("val",),
    "w:listItem": ("displayText",),
    "w:listEntry": ("val",),
    "v:textpath": ("string",),
}
_NO_BREAK_HYPHEN = "\u2011"
_INVISIBLE_PROPERTIES = frozenset("w:lang w:noProof lang altLang dirty err noProof smtClean smtId bmk".split())


class WordReader(PartReader):
    """Reads one part of a Word file.

    Parameters
    ----------
    xml
        The part.
    kept_styles
        The ids of styles whose text is not translated.
    """

    spaces: ClassVar = {"w:tab": "tab", "w:ptab": "tab", "w:br": "line", "w:cr": "line"}

    def __init__(self, xml: XmlText, kept_styles: Collection[str] = ()) -> None:
        super().__init__(xml)
        self._kept_styles = kept_styles
        self._runs = _Runs("", xml, kept_styles)
        self._runs_by_prefix = {"": self._runs}
        self._fields = WordFields(xml.text)

    def is_paragraph(self, tag: XmlToken) -> bool:
        """Whether a start tag starts a paragraph, or a label of a chart."""
        return tag.name in ("w:p", "c:v")

    def keeps(self, tag: XmlToken) -> bool:
        """Whether nothing in the element is translated."""
        return tag.name in _NUMBERS or super().keeps(tag)

    def translated_attributes(self, tag: XmlToken) -> Sequence[str]:
        """The attributes with the alternative text of a picture or table, or the text of a watermark."""
        return _ATTRIBUTES.get(tag.name, ("alt",) if tag.name.startswith("v:") else ())

    def paragraph(self, tag: XmlToken) -> list[Piece]:
        """Read a paragraph. One with a kept style has no segment, except for those inside of pictures."""
        if tag.name == "c:v":
            return self.plain()
        runs = self._runs_by_prefix.setdefault(tag.prefix, _Runs(tag.prefix, self.xml, self._kept_styles))
        around, self._runs = self._runs, runs
        properties, units, end = self._inline()
        self._runs = around
        atoms = self._fields.fold([atom for unit in units for atom in unit.atoms])
        children = [child for one in properties for child in properties_in(str(one), self.xml.prefixes)]
        if any(child.name == "w:pStyle" and child.local("val") in self._kept_styles for child in children):
            self.num_kept += has_letters(atoms)
            self.has_kept = False
            return [*properties, *(piece for unit in units for piece in unit.raw), end.raw]
        return [*properties, *self.segment(units, atoms, runs.serialize), end.raw]

    def _inline(self) -> tuple[list[Piece], list[Unit], XmlToken]:
        """The properties and the units in an element of a paragraph, and its end tag."""
        properties: list[Piece] = []
        units: list[Unit] = []
        for token in self.inside():
            if token.name in _PROPERTIES:
                properties += [*(piece for unit in units for piece in unit.raw), self.skip(token)]
                units.clear()
            elif token.kind in ("text", "other") or token.name in _INVISIBLE:
                units.append(Unit([self.skip(token)], (), token.name == "w:proofErr"))
            elif token.name == "w:r" and token.kind == "start":
                units.append(self._run(token))
            elif token.kind == "start" and (token.name in _CONTAINERS or is_translated(token.local("instr"))):
                units += self._container(token, [token.raw], [])
            else:
                raw = (self.skip(token),) if token.name in _DELETED else tuple(self.element(token))
                units.append(self.point(token.name, raw))
        return properties, units, self.end

    def _container(self, tag: XmlToken, before: list[Piece], after: list[Piece]) -> list[Unit]:
        """The units of an element around text. Its tags and properties are the first and last unit.

        The XML of their marks is `before` and `after`, plus what follows. The element is part of a run if these differ.
        """
        body = _BODIES.get(tag.name)
        opened, has_body = self.up_to(body) if body else ([], True)
        if not has_body:
            return [Unit([tag.raw, *opened], [Mark("point", (*before, *opened, *after))])]
        properties, units, end = self._inline()
        opened += properties
        closed: list[Piece] = [end.raw, *(self.up_to("")[0] if body else ())]
        first = Unit([tag.raw, *opened], [Mark("open", (*before, *opened))])
        return [first, *units, Unit(closed, [Mark("close", (*closed, *after))])]

    def _run(self, tag: XmlToken) -> Unit:
        """A run as one unit."""
        units: list[Unit] = []
        run = self._runs.number("")
        for token in self.inside():
            if token.name == "w:rPr":
                raw = self.skip(token)
                run = self._runs.number(raw)
                units.append(Unit([raw]))
            elif token.kind in ("text", "other") or token.name in _INVISIBLE:
                units.append(Unit([self.skip(token)]))
            elif token.name == "w:ruby" and token.kind == "start":
                units += self._container(token, [self._runs.start(run), token.raw], [self._runs.end])
            else:
                units.append(self._run_content(token, run))
        return join_units(units, [tag.raw], [self.end.raw])

    def _run_content(self, tag: XmlToken, run: int) -> Unit:
        """An element in a run, with its format."""
        if tag.name in ("w:t", "w:noBreakHyphen"):
            raw, text = self._text(tag) if tag.name == "w:t" else (self.skip(tag), _NO_BREAK_HYPHEN)
            is_kept = run in self._runs.hidden or (run in self._runs.raised and text.strip().isdecimal())
            self.has_kept = self.has_kept or (is_kept and any(map(str.isalpha, text)))
            return Unit([raw], [Mark("point", (raw,), run) if is_kept else Text(text, run)])
        raws = tuple(self.element(tag))
        kind = _FIELD_KINDS.get(tag.local("fldCharType") or tag.name, "point")
        return self.point(tag.name, raws, run, kind)

    def _text(self, tag: XmlToken) -> tuple[str, str]:
        """The XML of an element with text, and the text that Word shows."""
        tokens = [tag, *(self.inside() if tag.kind == "start" else ())]
        stop = self.end.stop if tag.kind == "start" else tag.stop
        text = "".join(token.text for token in tokens).replace(SOFT_HYPHEN, "")
        is_exact = self._runs.is_drawing or tag.attributes.get("xml:space") == "preserve"
        return self.xml.text[tag.start : stop], text if is_exact else text.strip(" \t\r\n")


class _Runs:
    """The formats of the runs in a part, as numbers.

    Parameters
    ----------
    prefix
        That of the paragraphs in the file, for Word or for drawings, which have the same elements.
    xml
        The part.
    kept_styles
        The ids of styles whose text is not translated.

    Attributes
    ----------
    hidden
        The formats of text that is not translated.
    raised
        The formats of superscripts, whose numbers are not translated: notes that are typed by hand, units.
    is_drawing
        Whether they belong to a drawing, whose texts keep all white space.
    end
        The end tag of a run.
    """

    def __init__(self, prefix: str, xml: XmlText, kept_styles: Collection[str]) -> None:
        self._own, self._prefixes, self._kept_styles = f"{prefix}:" if prefix else "", xml.prefixes, kept_styles
        self.is_drawing = "/drawingml/" in xml.uris.get(prefix, "")
        self._numbers: dict[str, int] = {}
        self._known: dict[str, int] = {}
        self._written: list[str] = []
        self.hidden: set[int] = set()
        self.raised: set[int] = set()
        self.end = f"</{self._own}r>"

    def number(self, raw: str) -> int:
        """The number of the format with these properties, the same for all that look the same."""
        if raw not in self._known:
            children = properties_in(raw, self._prefixes)
            attributes = [
                match for match in ATTRIBUTE.finditer(raw[: raw.find(">")]) if match[1] not in _INVISIBLE_PROPERTIES
            ]
            visible = "".join(child.raw for child in children if child.name not in _INVISIBLE_PROPERTIES)
            start = " ".join((f"{self._own}rPr", *(match[0] for match in attributes)))
            written = f"<{start}>{visible}</{self._own}rPr>" if visible or attributes else ""
            number = self._known[raw] = self._numbers.setdefault(written, len(self._numbers))
            self._written += [written] if number == len(self._written) else []
            own = [child.local("val") not in OFF for child in children if child.name == "w:vanish"]
            if any(child.name == "w:vertAlign" and child.local("val") == "superscript" for child in children):
                self.raised.add(number)
            styles = {child.local("val") for child in children if child.name == "w:rStyle"}
            if any(own) or (not own and not styles.isdisjoint(self._kept_styles)):
                self.hidden.add(number)
        return self._known[raw]

    def start(self, number: int) -> str:
        """The start of a run in a format."""
        return f"<{self._own}r>{self._written[number]}"

    def serialize(self, atoms: Iterable[FlatAtom]) -> list[Piece]:
        """Runs with the atoms: one for all text in the same format, and one for each mark, as Word writes them.

        LibreOffice shows text that follows a symbol in a run in the font of the symbol.
        """
        pieces: list[Piece] = []
        for _, group in groupby(atoms, key=lambda atom: atom[1] if isinstance(atom, tuple) else atom):
            first, *others = group
            if isinstance(first, Mark):
                pieces += first.raw if first.run == NO_RUN else (self.start(first.run), *first.raw, self.end)
            else:
                text = first[0] + "".join(atom[0] for atom in others if isinstance(atom, tuple))
                pieces += (self.start(first[1]), self._text(text), self.end)
        return pieces

    def _text(self, text: str) -> str:
        own = self._own
        if self.is_drawing:
            return f"<{own}t>{escape_xml(text)}</{own}t>"
        parts = []
        for part in text.split(_NO_BREAK_HYPHEN):
            space = ' xml:space="preserve"' if part != part.strip() else ""
            parts.append(f"<{own}t{space}>{escape_xml(part)}</{own}t>" if part else "")
        return f"<{own}noBreakHyphen/>".join(parts)
