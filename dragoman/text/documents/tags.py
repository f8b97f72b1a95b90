"""A tokenizer for HTML and XML that finds the tags as browsers do (HTML standard, section 13.2.5, tokenization).

A tag that is never closed extends to the end of the page. Each character is read once. Python's html.parser is not
used: it takes quadratic time for some pages (``<a <a <a``: 27 s for 40,000 characters in Python 3.11), raises
AssertionError for others, and differs between versions of Python.
"""

import re
from collections.abc import Iterator
from html.entities import html5
from typing import Literal, NamedTuple

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
