"""What the XML of an office file shows, as a list of tokens that is the same however the text is cut into runs.

It is made with lxml, and shares nothing with the readers that it tests.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO

from lxml import etree

from tests.unit.text.documents.office.generated_words import capital_words

Token = tuple[object, ...]
"""A character with its format, the start of an element with its attributes, or its end."""

_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w:",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a:",
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text:",
}
_WITHOUT_LOOK = {"w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen", "text:soft-page-break"}
_SAME_LOOK = {"w:lang", "w:noProof"}
_LANGUAGES = {"lang", "dirty"}
_RUNS = {"w:r": "w:rPr", "a:r": "a:rPr"}
_TEXTS = {"w:t", "a:t"}
_PARAGRAPHS = {"text:p", "text:h"}
_SOFT_HYPHEN = "\xad"
_TRANSLATED_ATTRIBUTES = {"descr", "title", "alt", "displayText", "string", "string-value", "label", "display-text"}
_SAME_LOOK_SPAN = "same-look"
_NO_LOOK_STYLE = re.compile("rsid|paragraph-rsid|(language|country|script)(-asian|-complex)?|rfc-language-tag.*")


def xml_members(content: bytes) -> dict[str, bytes]:
    """The XML members of an archive that are not empty."""
    with zipfile.ZipFile(BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist() if name.endswith((".xml", ".rels"))}
    return {name: content for name, content in members.items() if content}


def parsed(content: bytes) -> etree._Element:
    """The root of an XML file."""
    return etree.fromstring(content, etree.XMLParser(huge_tree=True))


def tokens_of(root: etree._Element) -> list[Token]:
    """The tokens of an XML file."""
    for style in root.iter("{urn:oasis:names:tc:opendocument:xmlns:style:1.0}style"):
        own = dict(_attributes(style))
        properties = [name for child in style for name, _ in _attributes(child)]
        if (
            own.get("family") == "text"
            and "parent-style-name" not in own
            and all(map(_NO_LOOK_STYLE.fullmatch, properties))
        ):
            for span in root.iter("{urn:oasis:names:tc:opendocument:xmlns:text:1.0}span"):
                if dict(_attributes(span)).get("style-name") == own["name"]:
                    span.tag = _SAME_LOOK_SPAN
    return list(_without_double_space(_tokens(root)))


def capitals_of(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with the words that must be translated in capitals."""
    text = "".join(str(token[0]) for token in tokens if len(token) == 2)
    letters = iter(capital_words(text))
    return [
        ("".join(next(letters) for _ in token[0]), token[1])
        if len(token) == 2 and isinstance(token[0], str)
        else _capital_attributes(token)
        for token in tokens
    ]


def text_of(tokens: Sequence[Token]) -> str:
    """All characters, and then the values of all attributes."""
    letters = "".join(str(token[0]) for token in tokens if len(token) == 2)
    values = [value for token in tokens if len(token) == 3 for _, value in token[1]]  # type: ignore[attr-defined]
    return "\n".join((letters, *values))


def _capital_attributes(token: Token) -> Token:
    if len(token) != 3:
        return token
    name, attributes, run = token
    is_text = name in ("w:tblCaption", "w:tblDescription")
    return (
        name,
        tuple(
            (key, capital_words(value) if is_text or key in _TRANSLATED_ATTRIBUTES else value)
            for key, value in attributes  # type: ignore[attr-defined]
        ),
        run,
    )


def _name(element: etree._Element) -> str:
    found = etree.QName(element)
    return _PREFIXES.get(str(found.namespace), "") + found.localname


def _tokens(element: etree._Element, run: str = "") -> Iterator[Token]:
    if not isinstance(element.tag, str):
        return
    name = _name(element)
    if name in _WITHOUT_LOOK:
        return
    if name in _RUNS:
        run = "".join(map(_format, (child for child in element if _name(child) == _RUNS[name])))
        for child in element:
            if _name(child) != _RUNS[name]:
                yield from _tokens(child, run or "plain")
    elif name in _TEXTS and run:
        is_exact = name == "a:t" or element.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"
        text = element.text or ""
        yield from ((letter, run) for letter in (text if is_exact else text.strip()) if letter != _SOFT_HYPHEN)
    elif name == "w:noBreakHyphen":
        yield "\u2011", run
    elif name == _SAME_LOOK_SPAN:
        yield from _inside(element, True)
    else:
        yield name, tuple(_attributes(element)), run
        yield from _inside(
            element, name in _PARAGRAPHS or any(_name(one) in _PARAGRAPHS for one in element.iterancestors())
        )
        yield "end", name, run, ""


def _inside(element: etree._Element, has_text: bool) -> Iterator[Token]:
    for text, child in zip([element.text, *(child.tail for child in element)], [*element, None], strict=True):
        if text and (has_text or not text.isspace()):
            yield from ((letter, "") for letter in text if letter != _SOFT_HYPHEN)
        if child is not None:
            yield from _tokens(child)


def _attributes(element: etree._Element) -> Iterator[tuple[str, str]]:
    for name, value in sorted(element.attrib.items()):
        local = etree.QName(name).localname
        if not local.startswith("rsid") or local == "rsid":
            yield local, str(value)


def _format(properties: etree._Element) -> str:
    """The properties of a run that change how it looks."""
    kept = [child for child in properties if _name(child) not in _SAME_LOOK]
    attributes = [f"{key}={value}" for key, value in _attributes(properties) if key not in _LANGUAGES]
    return " ".join((*attributes, *(f"({_name(child)} {_format(child)})" for child in kept)))


def _without_double_space(tokens: Iterator[Token]) -> Iterator[Token]:
    """The tokens with white space in the text of OpenDocument as its readers take it: one space for all of it."""
    in_space = False
    for token in tokens:
        if len(token) == 2 and token[1] == "":
            is_space = re.fullmatch(r"[ \t\r\n]", str(token[0])) is not None
            if not is_space:
                yield token
            elif not in_space:
                yield " ", ""
            in_space = is_space
        else:
            in_space = in_space and (token[0] == "text:span" or token[:2] == ("end", "text:span"))
            yield token
