"""From what a client sends to what is translated, and back: lines and sentences of plain text, blocks of mark-up, cues.

White space, line breaks and what has no letters, such as a number alone, come back as they are; mark-up does as
`text/documents/markup.py` says.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import MarkupRules, read_markup
from dragoman.text.documents.subtitles import read_subtitles
from dragoman.text.documents.tags import tags_of
from dragoman.text.tokenization.sentence_splitting import Segment, join_segments, split_sentences, split_to_fit

Split = Literal["sentences", "lines", "none"]
_LONGEST = 4_000
"""Characters of a text that is translated in one go: so long a one has no sentences, and would keep others waiting."""
_LINE_BREAKS = re.compile(r"((?:\r\n|\n|\r)\s*)")
_HTML = MarkupRules()
_LINE_TAG = "dragoman-line"


@dataclass(frozen=True, slots=True)
class Document:
    """The parts of a text that are translated, and what makes it whole again, given a translation for each.

    `is_markup`: translations are written escaped. `by_sentence`: a part may be several sentences.
    """

    texts: list[MarkedText]
    with_translations: Callable[[Sequence[str]], str]
    is_markup: bool = False
    by_sentence: bool = False


def plain_text(text: str, split: Split = "sentences") -> Document:
    """Plain text."""
    parts = _segments(text, split)
    places = [place for place, part in enumerate(parts) if any(map(str.isalpha, part.text))]

    def whole(translations: Sequence[str]) -> str:
        texts = [part.text for part in parts]
        for place, translation in zip(places, translations, strict=True):
            texts[place] = translation
        return join_segments(parts, texts)

    return Document([MarkedText(parts[place].text, ()) for place in places], whole)


def markup(text: str, split: Split = "sentences", rules: MarkupRules = _HTML) -> Document:
    """HTML, or XML by its rules."""
    page = read_markup(text, rules)
    return Document(page.texts, page.with_translations, is_markup=True, by_sentence=split == "sentences")


def xml_lines(text: str, ignored: Collection[str], splitting: Collection[str]) -> Document:
    """XML whose lines are texts of their own: a tag that nobody else knows ends each, until all is translated."""
    mark = f"<{_LINE_TAG}/>"
    rules = MarkupRules(True, ignored, {*splitting, _LINE_TAG})
    if _LINE_TAG in text:
        return markup(text, rules=rules)
    pieces = [
        _LINE_BREAKS.sub(rf"{mark}\1{mark}", tag.raw) if tag.kind == "text" else tag.raw for tag in tags_of(text, True)
    ]
    found = markup("".join(pieces), rules=rules)
    return Document(
        found.texts, lambda translations: found.with_translations(translations).replace(mark, ""), True, True
    )


def subtitles(text: str) -> Document:
    """SubRip: what is said, but not numbers, times and tags."""
    found = read_subtitles(text)
    return Document(found.texts, found.with_translations)


def _segments(text: str, split: Split) -> list[Segment]:
    if split == "none":
        pieces = [text]
    else:
        lines = _LINE_BREAKS.split(text)
        pieces = [line + space for line, space in zip(lines[::2], [*lines[1::2], ""], strict=True)]
    if split == "sentences":
        pieces = [sentence for line in pieces for sentence in split_sentences(line)]
    pieces = [part.text + part.separator for piece in pieces for part in split_to_fit(piece, len, _LONGEST)]
    segments = []
    for piece in filter(None, pieces):
        core = piece.strip()
        start = piece.index(core) if core else len(piece)
        if start:
            segments.append(Segment("", piece[:start]))
        if core:
            segments.append(Segment(core, piece[start + len(core) :]))
    return segments
