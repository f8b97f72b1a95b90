"""Split HTML and XML into texts to translate and markup that is kept byte for byte.

Markup parts are slices of the page, so they cannot change. Tags of inline elements become markers in the text of their
block (`markers.py`). All other tags end a block. If the inline tags of a block are not well nested, its texts are
translated one by one and each tag stays in place.

`tags_of` finds tags as browsers do (HTML standard, section 13.2.5, tokenization), and reads each character once. A tag
that is never closed extends to the end of the page. Python's html.parser is not used: it takes quadratic time for some
pages (``<a <a <a``: 27 s for 40,000 characters in Python 3.11), raises AssertionError for others, and differs between
versions of Python.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from html.entities import html5
from itertools import groupby
from typing import Literal, NamedTuple

from dragoman.languages import main_language
from dragoman.text.documents.markers import MarkedDocument, MarkedText, Marker, remove_placeholders
from dragoman.text.tokenization.sentence_splitting import SEARCHED_CHARS, find_all

TagKind = Literal["text", "start", "end", "empty", "other"]

_COMMENT_END = re.compile(r"--!?>")
_LETTER = re.compile(r"[a-zA-Z]")
_NAME = re.compile(r"[^ \t\n\f\r/>]*")
_BETWEEN = re.compile(r"[ \t\n\f\r/]*")
_ATTRIBUTE_NAME = re.compile(r"=?[^ \t\n\f\r/>=]*")
_EQUALS = re.compile(r"[ \t\n\f\r]*=[ \t\n\f\r]*")
_UNQUOTED = re.compile(r"[^ \t\n\f\r>]*")
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{0,40});")
_NEEDED = frozenset("class content charset http-equiv lang translate xml:lang".split())
_LONGEST_NEEDED = max(map(len, _NEEDED))
_RAW_TEXT = frozenset("script style xmp iframe noembed noframes textarea title".split())


class Tag(NamedTuple):
    """A stretch of a page.

    The kind "empty" is an element without an end tag, or an entity that HTML does not know. "other" is markup without
    text: comments, declarations, scripts. `name` and the names of `attributes` are in lower case. `attributes` has only
    those that translation needs, because a page may have millions.
    """

    kind: TagKind
    raw: str
    name: str = ""
    attributes: tuple[tuple[str, str], ...] = ()


def tags_of(page: str, xml: bool = False) -> Iterator[Tag]:
    """Split a page into stretches, which joined are the page.

    If `xml` is false, the content of elements such as script and style is not parsed.
    """
    place = start = 0
    while (place := page.find("<", place)) >= 0:
        found = _tag_at(page, place, xml)
        if found is None:
            place += 1
            continue
        yield from _texts(page[start:place])
        yield found
        start = place = place + len(found.raw)
        if found.kind == "start" and not xml and found.name in _RAW_TEXT:
            end_tag = re.compile(f"</{re.escape(found.name)}(?=[ \\t\\n\\f\\r/>])", re.IGNORECASE)
            closing = _find(end_tag, page, place)
            place = closing.start() if closing else len(page)
            kind: TagKind = "text" if found.name == "title" and closing else "other"
            yield Tag(kind, page[start:place])
            start = place
    yield from _texts(page[start:])


def _find(pattern: re.Pattern[str], page: str, start: int) -> re.Match[str] | None:
    """The first match of at most 20 characters, searched in short calls, because other threads wait for a call."""
    places = range(start, len(page), SEARCHED_CHARS)
    return next(filter(None, (pattern.search(page, place, place + SEARCHED_CHARS + 20) for place in places)), None)


def _texts(text: str) -> Iterator[Tag]:
    start = 0
    for entity in find_all(_ENTITY, text):
        if f"{entity[1]};" not in html5:
            if start < entity.start():
                yield Tag("text", text[start : entity.start()])
            yield Tag("empty", entity.group())
            start = entity.end()
    if start < len(text):
        yield Tag("text", text[start:])


def _tag_at(page: str, place: int, xml: bool) -> Tag | None:
    """The tag, comment or declaration that starts with the ``<`` at `place`. None if the ``<`` is text."""
    following = page[place + 1 : place + 2]
    if _LETTER.match(following):
        return _element_tag(page, place, place + 1, "start")
    if following == "/" and _LETTER.match(page, place + 2):
        return _element_tag(page, place, place + 2, "end")
    if following not in ("!", "?", "/") or not following or place + 2 >= len(page):
        return None
    if page.startswith("<!--", place):
        end = _find(_COMMENT_END, page, place + 2)
        return Tag("other", page[place : end.end() if end else len(page)])
    closing = ">"
    if xml and page.startswith("<![CDATA[", place):
        closing = "]]>"
    elif xml and following == "?":
        closing = "?>"
    stop = page.find(closing, place + 2)
    if xml and following == "!" and closing == ">" and page.find("[", place, stop) >= 0:
        stop = page.find(">", page.find("]", place) + 1 or len(page))
    return Tag("other", page[place : len(page) if stop < 0 else stop + len(closing)])


def _element_tag(page: str, place: int, start: int, kind: TagKind) -> Tag:
    name = _match_text(_NAME, page, start)
    stop = start + len(name)
    attributes: dict[str, str] = {}
    while True:
        between = _match_text(_BETWEEN, page, stop)
        stop += len(between)
        if stop >= len(page):
            return Tag("other", page[place:])
        if page[stop] == ">":
            empty = kind == "start" and between[-1:] == "/"
            return Tag("empty" if empty else kind, page[place : stop + 1], name.lower(), tuple(attributes.items()))
        key = _match_text(_ATTRIBUTE_NAME, page, stop)
        stop += len(key)
        value = ""
        if equals := _EQUALS.match(page, stop):
            stop = equals.end()
            quote = page[stop : stop + 1]
            if quote and quote in "\"'":
                end = page.find(quote, stop + 1)
                if end < 0:
                    return Tag("other", page[place:])
                value, stop = page[stop + 1 : end], end + 1
            else:
                value = _match_text(_UNQUOTED, page, stop)
                stop += len(value)
        if len(key) <= _LONGEST_NEEDED and key.lower() in _NEEDED:
            attributes[key.lower()] = value


def _match_text(pattern: re.Pattern[str], text: str, place: int) -> str:
    """The text that a pattern matches at `place`, possibly empty."""
    match = pattern.match(text, place)
    return match.group() if match else ""


_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q s small span strike strong sub sup time "
    "tt u img input wbr code kbd samp var".split()
)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_LEFT_ALONE = frozenset(
    "script style pre code kbd samp var textarea svg math template noscript iframe object canvas audio video".split()
)
_BLOCK = frozenset(
    "address article aside blockquote body br button caption center col colgroup dd details dialog dir div dl dt "
    "embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend "
    "li link main map menu meta nav ol optgroup option p param picture search section select source summary table "
    "tbody td tfoot th thead title tr track ul area base script style pre textarea svg math template noscript iframe "
    "object canvas audio video slot datalist output progress meter ruby rt rp".split()
)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_ESCAPE = re.compile(r"(&(?:lt|gt|#0*6[02](?!\d)|#x0*3[ce](?![\da-f])|amp;?(?=#?\w+;));?)", re.IGNORECASE)
_PLACEHOLDER = "\ufffc"
_ATTRIBUTE = re.compile(r"""(?<=[\s"'/])([^\s"'<>/=]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]*)""")
_CHARSET = re.compile(r"""((?:charset|encoding)\s*=\s*["']?)(?!utf-?8\b)[^\s"';>]+""", re.IGNORECASE)
_LONGEST_DECLARING = 100_000
"""Limit for the characters of a tag whose declarations are updated: a longer one would take the lock of Python."""
_MOST_NESTED = 100
"""Limit for nested inline tags: placing markers recurses, and takes time for each tag and each text inside it."""


@dataclass(frozen=True, slots=True)
class MarkupRules:
    """How to split a page into texts. Tag names are in lower case.

    Parameters
    ----------
    xml
        The page is XML: no element is special, and every element is inline unless it is in `splitting_tags`.
    ignore_tags
        Elements whose content is not translated.
    splitting_tags
        Elements of XML that end a block.
    escaped
        Write translations with ``<``, ``>`` and ``&`` escaped. If false, escaped characters in the page are kept as
        they are, because unescaped they would read as tags.
    """

    xml: bool = False
    ignore_tags: Collection[str] = ()
    splitting_tags: Collection[str] = ()
    escaped: bool = True

    def is_inline(self, tag: str) -> bool:
        """Whether an element can be part of a sentence. Unknown elements, such as custom ones, can."""
        if self.xml:
            return tag not in self.splitting_tags
        return tag in _INLINE or tag not in _BLOCK

    def leaves_alone(self, tag: Tag) -> bool:
        """Whether the content of the element with this start tag must not be translated."""
        if tag.name in self.ignore_tags or (not self.xml and tag.name in _LEFT_ALONE):
            return True
        known = dict(tag.attributes)
        return known.get("translate", "").lower() == "no" or "notranslate" in known.get("class", "").split()


def escape_text(text: str) -> str:
    """The text escaped for use between tags."""
    return escape(text, quote=False)


def _unescape(text: str) -> str:
    """Replace character references, except in a text with a number that no character has."""
    try:
        return unescape(text)
    except ValueError:  # more than 4,300 digits
        return text


def read_markup(page: str, rules: MarkupRules) -> MarkedDocument:
    """Split a page into blocks. Never fails, and the parts joined are the page. Time is linear in its length."""
    found = MarkedDocument()

    def is_inside_block(event: Tag) -> bool:
        if event.kind == "other":
            return event.raw.startswith("<!--") and event.raw.endswith("-->")
        return event.kind == "text" or rules.is_inline(event.name)

    for is_inside, events in groupby(_events(page, rules), is_inside_block):
        if is_inside:
            _add_block(list(events), found)
        else:
            found.parts += (event.raw for event in events)
    return found


def update_declarations(page: str, src_lang: str, tgt_lang: str) -> str:
    """The HTML page with the declarations of its translation, which is written in UTF-8.

    The declared encoding becomes UTF-8. `lang` becomes `tgt_lang`, unless that is "", in the element `html` and in
    every translated element in `src_lang`.
    """
    events = _events(page, MarkupRules())
    return "".join(_declared(event, main_language(src_lang), tgt_lang) for event in events)


def _declared(tag: Tag, src_lang: str, tgt_lang: str) -> str:
    """The tag with the declarations of the translation."""
    if tag.kind == "other":
        return _CHARSET.sub(r"\1utf-8", tag.raw) if tag.raw.startswith("<?xml") else tag.raw
    header = dict(tag.attributes).get("http-equiv", "").lower() if tag.name == "meta" else ""

    def attribute(match: re.Match[str]) -> str:
        name, value = match[1].lower(), match[3].strip("\"'")
        if tag.name == "meta" and (name == "charset" or (name == "content" and header == "content-type")):
            return _CHARSET.sub(r"\1utf-8", match[0])
        is_language = name in ("lang", "xml:lang") or (name == "content" and header == "content-language")
        is_source = tag.name == "html" or (src_lang and main_language(value) == src_lang)
        if not (is_language and is_source and value and tgt_lang) or main_language(value) == main_language(tgt_lang):
            return match[0]
        return f"{match[1]}{match[2]}{match[3].replace(value, tgt_lang)}"

    return _ATTRIBUTE.sub(attribute, tag.raw) if tag.attributes and len(tag.raw) <= _LONGEST_DECLARING else tag.raw


def _keep_escapes(page: str, rules: MarkupRules) -> Iterator[Tag]:
    """The tags of a page. Unless translations are escaped, each escape that would read as a tag is an "empty" event."""
    for event in tags_of(page, rules.xml):
        if rules.escaped or event.kind != "text":
            yield event
            continue
        for place, part in enumerate(_ESCAPE.split(event.raw)):
            yield Tag("empty" if place % 2 else "text", part)


def _events(page: str, rules: MarkupRules) -> Iterator[Tag]:
    """The tags of a page, with each untranslated element and each element without content as one "empty" event."""
    events = _keep_escapes(page, rules)
    for event in events:
        if event.kind == "start" and not rules.xml and event.name in _VOID:
            yield event._replace(kind="empty")
            continue
        if event.kind != "start" or not rules.leaves_alone(event):
            yield event
            continue
        parts, depth = [event.raw], 1
        for inner in events:
            parts.append(inner.raw)
            if inner.name == event.name:
                depth += (inner.kind == "start") - (inner.kind == "end")
            if not depth:
                break
        yield Tag("empty", "".join(parts), event.name)


def _add_block(events: Sequence[Tag], found: MarkedDocument) -> None:
    if not any(event.kind == "text" and any(map(str.isalpha, _unescape(event.raw))) for event in events):
        found.parts.append("".join(event.raw for event in events))
        return
    marked = _extract_markers(events)
    if marked is None:
        for event in events:
            _add_run(event, found)
        return
    lead = _SPACE.match(events[0].raw) if events[0].kind == "text" else None
    trail = events[-1].raw if events[-1].kind == "text" else ""
    found.parts += [lead.group() if lead else "", marked, trail[len(trail.rstrip(" \t\n\r\f")) :]]


def _add_run(event: Tag, found: MarkedDocument) -> None:
    """Add one event of a badly nested block: a text with letters is translated, all else is kept."""
    text = event.raw.strip(" \t\n\r\f")
    plain = _SPACE.sub(" ", _unescape(text))
    if event.kind != "text" or not any(map(str.isalpha, plain)):
        found.parts.append(event.raw)
        return
    lead, _, trail = event.raw.partition(text)
    found.parts += [lead, MarkedText(plain, ()), trail]


def _extract_markers(events: Sequence[Tag]) -> MarkedText | None:
    """The texts of a block as one text with its tags as markers. None if tags are badly or too deeply nested."""
    parts: list[str] = []
    length, ends_in_space = 0, True
    markers: list[Marker] = []
    placeholders: list[Marker] = []
    tags: list[str] = []
    inside = [-1]
    for event in events:
        text = ""
        if event.kind == "text":
            text = _SPACE.sub(" ", _unescape(event.raw))
            text = text[1:] if ends_in_space and text[:1] == " " else text
        elif event.kind == "start":
            if len(tags) >= _MOST_NESTED:
                return None
            inside.append(len(markers))
            tags.append(event.name)
            markers.append(Marker(length, length, event.raw, parent=inside[-2]))
        elif event.kind == "end":
            if not tags or tags.pop() != event.name:
                return None
            number = inside.pop()
            if number == len(markers) - 1 and markers[number].start == length:  # <x id="1"></x>
                text = _PLACEHOLDER
                placeholders.append(Marker(length, length + 1, markers.pop().head + event.raw))
            else:
                markers[number] = markers[number]._replace(stop=length, tail=event.raw)
        elif event.kind == "other" or event.name == "wbr":
            markers.append(Marker(length, length, event.raw, parent=inside[-1]))
        else:
            text = _PLACEHOLDER
            placeholders.append(Marker(length, length + 1, event.raw))
        if text:
            parts.append(text)
            length += len(text)
            ends_in_space = text[-1] == " "
    return None if tags else remove_placeholders(MarkedText("".join(parts), tuple(markers)), placeholders)
