"""Tags of XML with their places in the text, so that a change replaces characters and keeps all others.

`read_xml` has the XML checked by defusedxml first, which refuses entity declarations. So the reader of tags only meets
well-formed XML, and can be simple.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from dragoman.errors import DataError
from dragoman.text.documents.markup import escape_text

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
_TOKEN = re.compile(
    r"""(?P<text>[^<]+)|<!--.*?-->|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<\?.*?\?>"""
    r"""|<(?P<end>/?)(?P<name>[^\s/>!?]+)(?P<rest>[^>"']*(?:(?:"[^"]*"|'[^']*')[^>"']*)*)>""",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"""([^\s=]+)\s*=\s*("[^"]*"|'[^']*')""")
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(\w+));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MOST_NESTED = 200
_PARSED_BYTES = 1 << 18

TokenKind = Literal["start", "end", "empty", "text", "other"]


class XmlToken:
    """A tag, a text or other markup of an XML text, from the character `start` to `stop`.

    `name` has the prefix that this program uses, whatever the `prefix` in the file.
    """

    __slots__ = ("__dict__", "kind", "name", "prefix", "raw", "rest", "start", "stop", "text")

    def __init__(self, match: re.Match[str], prefixes: dict[str, str]) -> None:
        self.start, self.stop, self.raw = match.start(), match.end(), match.group()
        text, cdata, end, name, self.rest = match.group("text", "cdata", "end", "name", "rest")
        self.name, self.text, self.prefix = "", "", (name or "").rpartition(":")[0]
        self.kind: TokenKind = "other"
        if name:
            own = prefixes.get(self.prefix)
            self.name = f"{own}:{name.rpartition(':')[2]}" if own else name
            self.kind = "end" if end else "empty" if self.rest.endswith("/") else "start"
        elif text is not None or cdata is not None:
            self.kind, self.text = "text", unescape_xml(text) if text else cdata

    @cached_property
    def attributes(self) -> dict[str, str]:
        """The attributes of a tag, with the names as in the file."""
        return {match[1]: unescape_xml(match[2][1:-1]) for match in ATTRIBUTE.finditer(self.rest or "")}

    def local(self, name: str) -> str:
        """The value of the attribute with this name, whatever its prefix. "" if there is none."""
        return next((value for key, value in self.attributes.items() if key.rpartition(":")[2] == name), "")


def properties_in(raw: str, prefixes: dict[str, str]) -> list[XmlToken]:
    """The child elements of an element. A child with content has all its XML as `raw`."""
    found: list[XmlToken] = []
    depth = 0
    for match in _TOKEN.finditer(raw):
        token = XmlToken(match, prefixes)
        if depth == 1 and token.kind in ("start", "empty"):
            found.append(token)
        elif depth > 1:
            found[-1].raw += token.raw
        depth += (token.kind == "start") - (token.kind == "end")
    return found


class XmlText:
    """The text of an XML file.

    Attributes
    ----------
    text
        The decoded characters.
    uris
        The namespaces, by their prefixes in the file. "" for the default namespace.
    prefixes
        The prefixes in the file that differ from those of this program, with the latter.
    """

    def __init__(self, content: bytes, place: str, namespaces: dict[str, str]) -> None:
        check_xml(content, place)
        self._place = place
        found = _ENCODING.match(content)
        declared = found[1].decode() if found else "utf-8"
        self._encoding = next((name for bom, name in _BOMS if content.startswith(bom)), declared)
        self.text = content.decode(self._encoding)
        self.uris = dict(re.findall(r"""\sxmlns(?::([^\s=]+))?\s*=\s*["']([^"']*)["']""", self.text))
        self.prefixes = {own: namespaces[uri] for own, uri in self.uris.items() if namespaces.get(uri, own) != own}

    def tokens(self) -> Iterator[XmlToken]:
        """All tokens in order. Joined, they are the text."""
        return (XmlToken(match, self.prefixes) for match in _TOKEN.finditer(self.text))

    def encode(self, text: str) -> bytes:
        """The changed text as bytes. Raises DataError if it is not well-formed."""
        content = text.encode(self._encoding, "xmlcharrefreplace")
        check_xml(content, self._place)
        return content


def parse_xml(content: bytes, place: str) -> Element:
    """The root element. Raises DataError, which starts with `place`, for XML that is malformed or hostile."""
    root: Element = _parse(content, place, TreeBuilder())
    layer, depth = [root], 0
    while layer := [child for element in layer for child in element]:
        depth += 1
        _check_depth(depth, place)
    return root


def check_xml(content: bytes, place: str) -> None:
    """Raise DataError, as `parse_xml` does, without making elements."""
    _check_depth(_parse(content, place, _Nesting()), place)


def _check_depth(depth: int, place: str) -> None:
    if depth > _MOST_NESTED:
        advice = "Take apart tables that are inside of others."
        raise DataError(f"{place} has more than {_MOST_NESTED} nested elements. {advice}")


class _Nesting:
    """Receives the elements of a parser, and counts how deeply they are nested."""

    def __init__(self) -> None:
        self._depth = self._deepest = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._deepest = max(self._deepest, self._depth)

    def end(self, tag: str) -> None:
        self._depth -= 1

    def close(self) -> int:
        return self._deepest - 1


def _parse(content: bytes, place: str, target: Any) -> Any:
    """What `target` makes of the XML, in the pieces that a parser gives it."""
    advice = "Open the file in an office program and save it again."
    parser = DefusedXMLParser(target=target, forbid_dtd=True)
    try:
        for start in range(0, len(content), _PARSED_BYTES):  # one long call would stop all other threads
            parser.feed(content[start : start + _PARSED_BYTES])
        return parser.close()
    except DefusedXmlException:
        raise DataError(f"{place} declares a document type or entities. Do not trust this file.") from None
    except (ParseError, ValueError, LookupError) as error:
        raise DataError(f"{place} is not well-formed XML ({error}). {advice}") from None


def unescape_xml(text: str) -> str:
    """Replace the references of XML, which are fewer than those of HTML."""
    return _REFERENCE.sub(_referred, text) if "&" in text else text


def _referred(match: re.Match[str]) -> str:
    digits, base = (match[1], 16) if match[1] else (match[2], 10)
    return chr(int(digits, base)) if digits else _NAMED[match[3]]


def escape_xml(text: str) -> str:
    """The text escaped for use between tags, without characters that XML cannot hold."""
    return escape_text(ILLEGAL.sub("", text))


def escape_attribute(text: str) -> str:
    """The text escaped for use as the value of an attribute."""
    return escape_xml(text).replace('"', "&quot;").replace("'", "&apos;")
