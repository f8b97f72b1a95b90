"""Split HTML and XML into texts to translate and markup that is kept byte for byte.

Markup parts are slices of the page, so they cannot change. Tags of inline elements become markers in the text of their
block (`markers.py`). All other tags end a block. If the inline tags of a block are not well nested, its texts are
translated one by one and each tag stays in place.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import groupby

from dragoman.languages import main_language
from dragoman.text.documents.markers import MarkedDocument, MarkedText, Marker, remove_placeholders
from dragoman.text.documents.tags import Tag, tags_of

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
"""Limit for nested inline tags: placing markers takes time for each pair of a tag and a text inside it."""


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
