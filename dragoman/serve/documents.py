"""From what a client sends to what is translated, and back: lines and sentences of plain text, the text of markup.

White space, line breaks, tags and what has no letters or digits come back as they are.
"""

import html
import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from typing import Literal

from dragoman.text.sentences import Segment, join_segments, split_sentences

Split = Literal["sentences", "lines", "none"]
_LINE_BREAKS = re.compile(r"((?:\r\n|\n|\r)\s*)")
_CUE_HEAD = re.compile(r"((?:\A|(?<=\n))\s*\d+[ \t]*\r?\n[\d:,. ]+-->[^\n]*(?:\n|\Z))")
_TAG = re.compile(r"(</?[A-Za-z][^<>]{0,200}>|\{\\[^{}]{0,200}\})")
_NOT_TRANSLATED = frozenset(("script", "style", "textarea", "code", "kbd", "samp", "var"))
_WITHOUT_END = frozenset("area base br col embed hr img input link meta source track wbr".split())


@dataclass(frozen=True, slots=True)
class Document:
    """A text in parts, of which those at the places `translated` are translated.

    `lines`: of parts that stood on several lines, how many.
    """

    parts: list[Segment]
    translated: list[int]
    is_markup: bool = False
    lines: dict[int, int] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """What is to be translated."""
        return [self.parts[place].text for place in self.translated]

    def with_translations(self, translations: Sequence[str]) -> str:
        """The text with these in place of `texts`; in markup they stay text, whatever they contain."""
        texts = [part.text for part in self.parts]
        for place, translation in zip(self.translated, translations, strict=True):
            wrapped = _on_lines(translation, self.lines.get(place, 1))
            texts[place] = html.escape(wrapped, quote=False) if self.is_markup else wrapped
        if self.is_markup:
            return "".join(text + part.separator for text, part in zip(texts, self.parts, strict=True))
        return join_segments(self.parts, texts)


def plain(text: str, split: Split = "sentences") -> Document:
    """Plain text."""
    parts = _segments(text, split)
    return Document(parts, [place for place, part in enumerate(parts) if _says_something(part.text)])


def markup(text: str, split: Split = "sentences", ignored: Collection[str] = ()) -> Document:
    """HTML or XML: what stands between tags, but for what is inside the elements `ignored` or marked translate="no".

    A character reference is read as its character; what is written back is escaped again.
    """
    parts: list[Segment] = []
    translated: list[int] = []
    for raw, is_text in _runs(text, frozenset(name.lower() for name in ignored) | _NOT_TRANSLATED):
        pieces = _segments(html.unescape(raw), split) if is_text else []
        if not any(_says_something(piece.text) for piece in pieces):
            parts.append(Segment(raw, ""))
            continue
        for piece in pieces:
            says = _says_something(piece.text)
            translated += [len(parts)] if says else []
            parts.append(Segment(piece.text if says else html.escape(piece.text, quote=False), piece.separator))
    return Document(parts, translated, is_markup=True)


def subtitles(text: str) -> Document:
    """SubRip: what is said, but not numbers and times; what stands on several lines is one text, as between tags."""
    parts: list[Segment] = []
    translated: list[int] = []
    lines: dict[int, int] = {}
    for number, piece in enumerate(_CUE_HEAD.split(text)):
        runs = _TAG.split(piece) if number % 2 == 0 else [piece]
        for place, run in enumerate(runs):
            core = run.strip()
            start = run.find(core)
            parts.append(Segment("", run[:start]))
            if number % 2 == 0 and place % 2 == 0 and _says_something(core):
                said = core.splitlines()
                lines[len(parts)] = len(said)
                translated.append(len(parts))
                core = " ".join(line.strip() for line in said)
            parts.append(Segment(core, run[start + len(run.strip()) :]))
    return Document(parts, translated, lines=lines)


def _on_lines(text: str, count: int) -> str:
    """Cut at spaces into so many lines of about the same length, where it has as many words."""
    if count == 1:
        return text
    width = max(len(text) // count, 1)
    while len(wrapped := textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)) > count:
        width += 1
    return "\n".join(wrapped)


def _segments(text: str, split: Split) -> list[Segment]:
    if split == "none":
        pieces = [text]
    else:
        lines = _LINE_BREAKS.split(text)
        pieces = [line + space for line, space in zip(lines[::2], [*lines[1::2], ""], strict=True)]
    if split == "sentences":
        pieces = [sentence for line in pieces for sentence in split_sentences(line)]
    segments = []
    for piece in filter(None, pieces):
        core = piece.strip()
        start = piece.index(core) if core else len(piece)
        if start:
            segments.append(Segment("", piece[:start]))
        if core:
            segments.append(Segment(core, piece[start + len(core) :]))
    return segments


def _says_something(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _runs(text: str, ignored: Collection[str]) -> list[tuple[str, bool]]:
    """The text cut into runs, put together the same; with each, whether it is to be translated."""
    marks = _Marks(text, ignored)
    runs: list[tuple[int, bool]] = []
    for start, is_text in marks.found:
        if not (is_text and runs and runs[-1][1]):
            runs.append((start, is_text))
    starts = [start for start, _ in runs]
    spans = pairwise([*starts, len(text)])
    return [(text[start:end], is_text) for (start, end), (_, is_text) in zip(spans, runs, strict=True)]


class _Marks(HTMLParser):
    """Where in a text something begins, and whether it is text to be translated."""

    def __init__(self, text: str, ignored: Collection[str]) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[int, bool]] = []
        self._ignored = ignored
        self._closed_by: list[str] = []
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()

    def _mark(self, is_text: bool = False) -> None:
        line, column = self.getpos()
        start = self._lines[line - 1] + column
        if not self.found or start > self.found[-1][0]:
            self.found.append((start if self.found else 0, is_text and not self._closed_by))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._mark()
        given = dict(attrs)
        marked = given.get("translate") == "no" or "notranslate" in (given.get("class") or "").split()
        opens = tag == self._closed_by[0] if self._closed_by else marked or tag in self._ignored
        if opens and tag not in _WITHOUT_END:
            self._closed_by.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._mark()

    def handle_endtag(self, tag: str) -> None:
        self._mark()
        if self._closed_by and self._closed_by[-1] == tag:
            self._closed_by.pop()

    def handle_data(self, data: str) -> None:
        self._mark(is_text=True)

    def handle_entityref(self, name: str) -> None:
        self._mark(is_text=True)

    def handle_charref(self, name: str) -> None:
        self._mark(is_text=True)

    def handle_comment(self, data: str) -> None:
        self._mark()

    def handle_decl(self, decl: str) -> None:
        self._mark()

    def handle_pi(self, data: str) -> None:
        self._mark()

    def unknown_decl(self, data: str) -> None:
        self._mark()
