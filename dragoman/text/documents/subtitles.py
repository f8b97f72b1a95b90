"""Split SubRip (.srt) and WebVTT (.vtt) subtitles into the texts of the cues and everything else, kept as it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.errors import DataError
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.markup import MarkedPage, MarkupRules, read_markup

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_TIME = re.compile(r"\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}\s*-->\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}")
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
_RULES = MarkupRules(xml=True, escaped=False)
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Cue:
    """The text of one speaker in one cue: its lines joined by spaces and read as markup. `breaks` has the line ends."""

    page: MarkedPage
    breaks: tuple[str, ...]

    def wrap(self, translation: str) -> str:
        """Wrap a translation into as many lines of similar length as the source. Fewer words give fewer lines."""
        words = _WORD.findall(translation)
        longest = -(-len(" ".join(words)) // len(self.breaks))
        lines: list[list[str]] = [[]]
        length = 0
        for word in words:
            full = lines[-1] and length + (len(word) + 1) / 2 >= longest
            if full and len(lines) < len(self.breaks):
                lines.append([])
            length = length + 1 + len(word) if lines[-1] else len(word)
            lines[-1].append(word)
        ends = [*self.breaks[: len(lines) - 1], self.breaks[-1]]
        return "".join(" ".join(line) + end for line, end in zip(lines, ends, strict=True))


@dataclass(frozen=True, slots=True)
class Subtitles:
    """A file as a list of parts: strings (numbers, times, blank lines) are kept, cues are translated."""

    parts: list[str | Cue]

    @property
    def texts(self) -> list[MarkedText]:
        """The texts to translate, in order."""
        return [text for part in self.parts if isinstance(part, Cue) for text in part.page.texts]

    def with_translations(self, translations: Sequence[str]) -> str:
        """The file with its texts replaced. Translations must have their markers."""
        following = iter(translations)

        def said(cue: Cue) -> str:
            return cue.wrap(cue.page.with_translations(list(islice(following, len(cue.page.texts)))))

        return "".join(part if isinstance(part, str) else said(part) for part in self.parts)


def read_subtitles(text: str) -> Subtitles:
    """Split a file into its parts. Lines of a cue that start with a dash belong to different speakers.

    Raises DataError for a text without any cue.
    """
    parts: list[str | Cue] = []
    has_cues = False
    said: list[tuple[str, str]] = []
    in_cue = False

    def finish() -> None:
        if said:
            page = read_markup(" ".join(line for line, _ in said), _RULES)
            parts.append(Cue(page, tuple(end for _, end in said)))
            said.clear()

    for match in _LINE.finditer(text):
        raw = match.group()
        line = raw.rstrip("\r\n")
        if not in_cue or not line.strip():
            finish()
            parts.append(raw)
            in_cue = bool(_TIME.match(line))
            has_cues = has_cues or in_cue
            continue
        if dash := _DASH.match(line):
            finish()
            parts.append(dash.group())
        said.append((line[dash.end() if dash else 0 :].strip(), raw[len(line) :]))
    finish()
    if text.strip() and not has_cues:
        raise DataError("no line is a subtitle time such as 00:00:01,000 --> 00:00:02,500. Check the file format.")
    return Subtitles(parts)
