"""Small office files as bytes, and a translator that writes capitals, for the tests of office documents."""

import re
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from itertools import pairwise

import numpy as np

from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.office.document import OfficeDocument, read_office
from dragoman.text.documents.placement import AlignedPart, insert_markers

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"
_KINDS = {
    "word/document.xml": f"{_WORD}.document.main+xml",
    "word/styles.xml": f"{_WORD}.styles+xml",
    "word/footnotes.xml": f"{_WORD}.footnotes+xml",
    "word/header1.xml": f"{_WORD}.header+xml",
    "word/comments.xml": f"{_WORD}.comments+xml",
    "word/glossary/document.xml": f"{_WORD}.document.glossary+xml",
    "word/charts/chart1.xml": "application/vnd.openxmlformats-officedocument.drawingml.chart+xml",
    "word/diagrams/data1.xml": "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml",
    "docProps/core.xml": "application/vnd.openxmlformats-package.core-properties+xml",
}


def archive_of(members: Mapping[str, str | bytes], stored: str = "") -> bytes:
    """A zip archive. The member `stored` is not compressed."""
    written = BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (1999, 12, 31, 23, 58, 4))
            info.external_attr = 0
            file.writestr(info, content, zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED)
    return written.getvalue()


def word_part(body: str, root: str = "document") -> str:
    """A part of a Word file. The element `body` is only in the main part."""
    body = f"<w:body>{body}</w:body>" if root == "document" else body
    names = (
        f'xmlns:w="{W}" xmlns:v="urn:schemas-microsoft-com:vml" xmlns:m="urn:math" xmlns:r="urn:r" '
        'xmlns:mc="urn:mc" xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    )
    return f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n<w:{root} {names}>{body}</w:{root}>'


def docx(body: str, **parts: str | bytes) -> bytes:
    """A Word file with this body. Names of further parts are written with ``__`` for ``/``."""
    own = {name.replace("__", "/") + ".xml": content for name, content in parts.items()}
    kinds = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in _KINDS.items())
    types = f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{kinds}</Types>'
    return archive_of({"[Content_Types].xml": types, "word/document.xml": word_part(body), **own})


def open_part(body: str, styles: str = "") -> str:
    """A part of an OpenDocument file."""
    names = " ".join(f'xmlns:{name}="{_OPEN}:{name}:1.0"' for name in ("office", "text", "draw", "style", "table"))
    return (
        f'<office:document-content {names} xmlns:svg="{_OPEN}:svg-compatible:1.0" xmlns:fo="{_OPEN}:fo:1.0" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:x="urn:x">'
        f"<office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )


def odt(body: str, automatic: str = "", **parts: str | bytes) -> bytes:
    """An OpenDocument file with this body and these automatic styles."""
    own = {f"{name}.xml": content for name, content in parts.items()}
    members = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": open_part(body, automatic), **own}
    return archive_of(members, "mimetype")


def capitals(text: str) -> str:
    """The text in capitals, with as many characters."""
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)


def translate(segment: MarkedText, document: OfficeDocument, change: Callable[[str], str] = capitals) -> str:
    """A translation word by word, in the order of the source."""
    edges = sorted({edge for marker in segment.markers for edge in (marker.start, marker.stop)})
    spans = list[tuple[int, int]]()
    for match in re.finditer(r"\w+|[^\w\s]", segment.text):
        cuts = [match.start(), *(edge for edge in edges if match.start() < edge < match.end()), match.end()]
        spans += pairwise(cuts)
    parts = [AlignedPart([span], [span], np.ones((1, 1))) for span in spans]
    return insert_markers(segment, change(segment.text), parts, document.escape)


def written(content: bytes, change: Callable[[str], str] = capitals, **options: object) -> bytes:
    """The translated file."""
    document = read_office(content, "file", **options)  # type: ignore[arg-type]
    return document.write([translate(segment, document, change) for segment in document.segments])


def texts(content: bytes, **options: object) -> list[str]:
    """The texts of the segments."""
    return [segment.text for segment in read_office(content, "file", **options).segments]  # type: ignore[arg-type]


def member(content: bytes, name: str = "word/document.xml", encoding: str = "utf-8") -> str:
    """The content of a member."""
    with zipfile.ZipFile(BytesIO(content)) as file:
        return file.read(name).decode(encoding)


def body_of(content: bytes) -> str:
    """The body of a Word or OpenDocument file."""
    name = "word/document.xml" if content.count(b"word/document.xml") else "content.xml"
    found = re.search(r"<(w:body|office:text)>(.*)</\1>", member(content, name), re.DOTALL)
    assert found
    return found[2]
