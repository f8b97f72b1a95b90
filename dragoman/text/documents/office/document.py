"""Office files: recognized by content, read into segments, and written with the translations.

A file is changed in place: the translated characters are replaced, everything else stays as it is.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element

from dragoman.display import one_line
from dragoman.errors import DataError
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.office.archive import Archive, Limits
from dragoman.text.documents.office.atoms import OfficeSegment
from dragoman.text.documents.office.docx import WORD_NAMESPACES, WordReader
from dragoman.text.documents.office.languages import declare_open, declare_word
from dragoman.text.documents.office.odt import OPEN_NAMESPACES, OpenDocumentReader
from dragoman.text.documents.office.parts import PartReader, segments_of, write_pieces
from dragoman.text.documents.office.styles import (
    Style,
    kept_styles,
    open_styles,
    paragraph_styles,
    unknown_names,
    word_styles,
)
from dragoman.text.documents.office.xml import escape_xml

_Part = tuple[str, PartReader]
_DECLARE = {"docx": declare_word, "odt": declare_open}

_TYPES = "[Content_Types].xml"
_MAIN_TYPE = re.compile(r"\.(?:wordprocessingml|ms-word)\..+\.main\+xml$")
_TEXT_TYPES = (
    *(f".wordprocessingml.{part}+xml" for part in ("document.glossary", "footnotes", "endnotes", "header", "footer")),
    *(f".drawingml.{part}+xml" for part in ("chart", "chartshapes", "diagramData", "diagramDrawing")),
)
_MANIFEST = "META-INF/manifest.xml"
_ODT_TYPES = ("application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template")
_SIGNATURES = ("_xmlsignatures/", "META-INF/documentsignatures.xml")
_BINDING = re.compile(r"<w\d*:dataBinding\b[^>]*/>")
"""What makes Word replace the text of a content control by a property of the document."""
_SAVE = "Save it as .docx or .odt in an office program, such as LibreOffice."


class OfficeDocument:
    """An office file.

    Attributes
    ----------
    segments
        The texts to translate, one for each paragraph with letters.
    """

    escape = staticmethod(escape_xml)
    by_sentence = True

    def __init__(self, archive: Archive, parts: Iterable[_Part], kind: str) -> None:
        self._archive, self.kind = archive, kind
        readers = dict(parts)
        self._parts = [(member, reader.xml, reader.read()) for member, reader in readers.items()]
        _add_notes(archive, list(readers.values()))
        self.notes: Sequence[str] = archive.notes
        self.num_kept = sum(reader.num_kept for reader in readers.values())
        self._segments: list[OfficeSegment] = [found for *_, pieces in self._parts for found in segments_of(pieces)]
        self.segments: list[MarkedText] = [segment.source for segment in self._segments]
        if not self.segments:
            archive.note("it has no text to translate.")

    def write(self, translations: Sequence[str], languages: tuple[str, str] | None = None) -> bytes:
        """The file with the translations, which must have the markers of their segments and be escaped.

        `languages` are the codes of the source and the target. With them, the file declares its new language.
        """
        by_segment = dict(zip(self._segments, translations, strict=True))
        replaced = {}
        for member, xml, pieces in self._parts:
            text = "".join(write_pieces(pieces, by_segment))
            if text != xml.text:
                text = _BINDING.sub("", text)
            replaced[member] = xml.encode(_DECLARE[self.kind](text, *languages) if languages else text)
        return self._archive.write(replaced)


def _add_notes(archive: Archive, readers: Sequence[PartReader]) -> None:
    if any(name.startswith(_SIGNATURES) for name in archive.names):
        archive.note("the digital signature does not fit the translation. Sign the translation.")
    if num_kept := sum(reader.num_kept for reader in readers):
        archive.note(f"paragraphs left as they are, because of their styles: {num_kept:,}.")
    if any(":altChunk " in reader.xml.text for reader in readers):
        advice = "Open the document in Word, save it, and translate that."
        archive.note(f"text that was inserted from another file is left as it is. {advice}")


_ANY_SIZE = Limits()


def read_office(
    content: bytes, name: str, comments: bool = False, keep_styles: Iterable[str] = (), limits: Limits = _ANY_SIZE
) -> OfficeDocument:
    """Read a Word or OpenDocument file.

    Parameters
    ----------
    content
        The bytes of the file.
    name
        Its name, for messages.
    comments
        Whether comments are translated.
    keep_styles
        The names of styles whose text is not translated, besides those for code.
    limits
        What the file may have at most.

    Raises
    ------
    DataError
        If the file is of another kind, damaged, encrypted, too large or hostile.
    """
    if not content:
        raise DataError(f"{name} is empty. {_SAVE}")
    if not content.startswith(b"PK"):
        raise DataError(f"{name} is not a docx or odt file, but text, HTML or something else. {_SAVE}")
    archive = Archive(content, name, limits)
    if _TYPES in archive:
        return OfficeDocument(archive, _word_parts(archive, comments, set(keep_styles)), "docx")
    if "content.xml" in archive:
        return OfficeDocument(archive, _open_parts(archive, comments, set(keep_styles)), "odt")
    raise DataError(
        f"{name} is a zip archive, but not of an office file: it has no member {_TYPES} or content.xml. {_SAVE}"
    )


def _word_parts(archive: Archive, comments: bool, named: set[str]) -> Iterator[_Part]:
    """The parts of a Word file, found by their content types, which even a file without relations has."""
    kinds = _content_types(archive)
    main = [member for member, kind in kinds.items() if _MAIN_TYPE.search(kind)]
    if not main:
        raise DataError(f"{archive.name} is a spreadsheet, a presentation or similar, not a Word file. {_SAVE}")
    main.sort(key=lambda member: not member.lower().endswith("/document.xml"))

    def found(*endings: str) -> list[str]:
        return [member for member, kind in kinds.items() if kind.endswith(endings) and member in archive]

    style_parts = found(".wordprocessingml.styles+xml")
    styles = [style for member in style_parts for style in word_styles(archive.parse(member))]
    kept = _kept_styles(archive, styles, named, archive.parse(main[0]))
    comment_parts = found(".wordprocessingml.comments+xml") if comments else []
    for member in (main[0], *style_parts, *found(*_TEXT_TYPES), *comment_parts):
        yield member, WordReader(archive.read_xml(member, WORD_NAMESPACES), kept)
    for member in found(".core-properties+xml"):
        yield member, OpenDocumentReader(archive.read_xml(member, OPEN_NAMESPACES))


def _content_types(archive: Archive) -> dict[str, str]:
    """The content type of each member: its own or that of its extension (ECMA-376, part 2, 10.1.2).

    Names are compared without case. A member that the archive lacks has its own type, too.
    """
    types = {}
    for one in archive.parse(_TYPES):
        types[(one.get("PartName") or f".{one.get('Extension')}").lower()] = one.get("ContentType", "")
    members = {f"/{member}".lower(): member for member in archive.names}
    own = {members.get(name, name[1:]): kind for name, kind in types.items() if name.startswith("/")}
    return {member: types.get(f".{member.rpartition('.')[2]}".lower(), "") for member in archive.names} | own


def _open_parts(archive: Archive, comments: bool, named: set[str]) -> Iterator[_Part]:
    """The parts of an OpenDocument file."""
    kind = archive.read("mimetype").decode(errors="replace").strip() if "mimetype" in archive else _ODT_TYPES[0]
    if kind not in _ODT_TYPES:
        raise DataError(f"{archive.name} is not an OpenDocument text, but {one_line(kind)}. {_SAVE}")
    if _MANIFEST in archive and b":encryption-data" in archive.read(_MANIFEST):
        raise archive.fault("content.xml", "is encrypted", "Save the file without a password.")
    yield from _open_text(archive, "", comments, named)
    for member in archive.names:
        folder, _, name = member.rpartition("/")
        if folder and name == "content.xml" and b"<office:document-content" in archive.read(member):
            yield from _open_text(archive, f"{folder}/", comments, named)  # a chart, but not a formula


def _open_text(archive: Archive, folder: str, comments: bool, named: set[str]) -> Iterator[_Part]:
    """The parts of an OpenDocument file or of an object in it. Each part may have styles of its own."""
    members = [folder + name for name in ("content.xml", "styles.xml", "meta.xml") if folder + name in archive]
    roots = {member: archive.parse(member) for member in members}
    found = {member: list(open_styles(root)) for member, root in roots.items()}
    for member in members:
        styles = {style.name: style for other in (*members, member) for style in found[other]}
        kept = _kept_styles(archive, styles.values(), named if member == "content.xml" else (), roots[member])
        plain = {style.name for style in styles.values() if style.is_plain}
        yield member, OpenDocumentReader(archive.read_xml(member, OPEN_NAMESPACES), kept, plain, comments)


def _kept_styles(archive: Archive, styles: Collection[Style], named: Collection[str], root: Element) -> set[str]:
    """The styles whose text is not translated in the part `root`. Notes names that no style has."""
    for name in unknown_names(styles, named):
        archive.note(f"no style has the name {one_line(name)}, which should be kept.")
    return kept_styles(styles, named, paragraph_styles(root))
