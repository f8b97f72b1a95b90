"""Splits a text into the parts to translate: lines and sentences of plain text, blocks of markup, subtitle cues.

White space, line breaks and parts without letters, such as a lone number, stay unchanged. Markup is preserved by
`text/documents/markup.py`.

The APIs of the server choose a `TextFormat` from the fields of a request. `read_document` chooses one for a file. The
result of reading is a `SplitText`: the parts, and a function that puts their translations back in place.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal, NamedTuple

from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup, tags_of
from dragoman.text.documents.subtitles import read_subtitles
from dragoman.text.tokenization import sentence_splitting as splitting

TextKind = Literal["text", "html", "xml", "xml-lines", "subtitles"]
Split = Literal["sentences", "lines", "none"]
# Characters of one part. A longer text without sentence ends would keep other requests waiting.
_LONGEST = 4_000
_LINE_BREAKS = re.compile(r"((?:\r\n|\n|\r)\s*)")
_LINE_END = re.compile(r"\r\n|[\r\n]")
MARKERS = "comments, entities and tags inside of sentences"
_LINE_TAG = "dragoman-line"
_LINE_MARKER = f"<{_LINE_TAG}/>"


class SplitText(NamedTuple):
    """The parts of a text to translate.

    Attributes
    ----------
    texts
        The parts in order, each with its markers. It is empty if nothing needs a translation.
    with_translations
        Builds the whole text from one translation per part, in the same order.
    num_pieces
        The parts, the stretches between them that stay unchanged, and their markers, which all take memory.
    """

    texts: list[MarkedText]
    with_translations: Callable[[Sequence[str]], str]
    num_pieces: int


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The kind of a text and where to split it.

    Attributes
    ----------
    kind
        Plain text, HTML, XML, XML in which every line is a separate text, or subtitles (SubRip or WebVTT).
    split
        For plain text: at sentences and lines, at lines only, or not at all. For markup: whether a part may have
        several sentences.
    ignored_tags
        Tags whose content is not translated.
    splitting_tags
        In XML, the only tags that separate texts.
    """

    kind: TextKind = "text"
    split: Split = "sentences"
    ignored_tags: frozenset[str] = frozenset()
    splitting_tags: frozenset[str] = frozenset()

    @property
    def is_markup(self) -> bool:
        """Whether the text has markup."""
        return self.kind in ("html", "xml", "xml-lines")

    @property
    def escape(self) -> Callable[[str], str]:
        """The function that escapes translations."""
        return escape_text if self.is_markup else str

    @property
    def by_sentence(self) -> bool:
        """Whether a part may have several sentences."""
        return self.is_markup and self.split == "sentences"

    def read(self, text: str) -> SplitText:
        """The parts of a text. Raises DataError for a text that is not of this kind."""
        if self.kind == "text":
            return _read_plain_text(text, self.split)
        if self.kind == "subtitles":
            subtitles = read_subtitles(text)
            return SplitText(subtitles.texts, subtitles.with_translations, len(subtitles.texts))
        # A text that contains the line tag itself is split there, but its line ends cannot be marked.
        own_tags = frozenset({_LINE_TAG} if self.kind == "xml-lines" else ())
        rules = MarkupRules(self.kind != "html", self.ignored_tags, self.splitting_tags | own_tags)
        marks_lines = self.kind == "xml-lines" and _LINE_TAG not in text
        page = read_markup(_mark_line_ends(text) if marks_lines else text, rules)

        def without_marks(translations: Sequence[str]) -> str:
            return page.with_translations(translations).replace(_LINE_MARKER, "")

        return SplitText(page.texts, without_marks if marks_lines else page.with_translations, page.num_pieces)

    def measure(self, text: str) -> Iterator[tuple[str, int]]:
        """What the parts of a text are called and how many characters they have, without making them.

        A tag has no characters. `MARKERS` take more memory than other tags.
        """
        if self.kind == "text":
            yield from (("lines and sentences", 0) for _ in _cut(text, self.split))
        elif self.kind == "subtitles":
            for line in _cut_after(_LINE_END, text):
                yield "lines", len(line)
                yield from repeat((MARKERS, 0), line.count("<") + line.count("&"))
        else:
            rules = MarkupRules(self.kind != "html")
            for tag in tags_of(text, rules.xml):
                if tag.kind == "text":
                    yield "texts", len(tag.raw)
                else:
                    yield (MARKERS if rules.is_inline(tag.name) else "tags"), 0


PLAIN_TEXT = TextFormat()


def _read_plain_text(text: str, split: Split) -> SplitText:
    parts = _segments(text, split)
    places = [place for place, part in enumerate(parts) if any(map(str.isalpha, part.text))]

    def whole(translations: Sequence[str]) -> str:
        texts = [part.text for part in parts]
        for place, translation in zip(places, translations, strict=True):
            texts[place] = translation
        return splitting.join_segments(parts, texts)

    return SplitText([MarkedText(parts[place].text, ()) for place in places], whole, len(parts))


def _mark_line_ends(text: str) -> str:
    """Put a private tag before and after each line end of the XML."""
    marked = rf"{_LINE_MARKER}\1{_LINE_MARKER}"
    return "".join(_LINE_BREAKS.sub(marked, tag.raw) if tag.kind == "text" else tag.raw for tag in tags_of(text, True))


def _cut(text: str, split: Split) -> Iterator[str]:
    """The lines or sentences of a text, each with the white space after it."""
    for line in [text] if split == "none" else _cut_after(_LINE_BREAKS, text):
        yield from splitting.cut_at(line, splitting.sentence_ends(line)) if split == "sentences" else [line]


def _cut_after(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The parts of a text, each with the match of the pattern at its end."""
    return splitting.cut_at(text, (match.end() for match in splitting.find_all(pattern, text)))


def _segments(text: str, split: Split) -> list[splitting.Segment]:
    """Parts with the white space after each. White space in front of a part is a part without text."""
    segments = []
    for part in (part for piece in _cut(text, split) for part in splitting.split_to_fit(piece, len, _LONGEST)):
        piece = part.text + part.separator
        core = piece.strip()
        start = piece.index(core) if core else len(piece)
        if start:
            segments.append(splitting.Segment("", piece[:start]))
        if core:
            segments.append(splitting.Segment(core, piece[start + len(core) :]))
    return segments
