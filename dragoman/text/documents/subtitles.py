"""Split SubRip (.srt) and WebVTT (.vtt) subtitles into the texts of the cues and everything else, kept as it is."""

import re
from collections.abc import Sequence
from functools import partial

from dragoman.errors import DataError
from dragoman.text.documents.markers import MarkedDocument
from dragoman.text.documents.markup import MarkupRules, read_markup

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_TIME = re.compile(r"\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}\s*-->\s*(?:\d+:)?\d\d:\d\d[,.]\d{1,3}")
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
_RULES = MarkupRules(xml=True, escaped=False)
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")


def read_subtitles(text: str) -> MarkedDocument:
    """Split a file into its cues and the rest: numbers, times and blank lines.

    The text of one speaker in a cue is one part: its lines are joined by spaces and read as markup. Lines of a cue that
    start with a dash belong to different speakers. Raises DataError for a text without any cue.
    """
    subtitles = MarkedDocument()
    parts, said = subtitles.parts, list[tuple[str, str]]()
    has_cues = in_cue = False

    def finish() -> None:
        if said:
            page = read_markup(" ".join(line for line, _ in said), _RULES)
            parts.append(MarkedDocument(page.parts, partial(_wrap, [end for _, end in said])))
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
    return subtitles


def _wrap(ends: Sequence[str], translation: str) -> str:
    """Wrap a translation into as many lines of similar length as there are line ends. Few words give fewer lines."""
    words = _WORD.findall(translation)
    longest = -(-len(" ".join(words)) // len(ends))
    lines: list[list[str]] = [[]]
    length = 0
    for word in words:
        full = lines[-1] and length + (len(word) + 1) / 2 >= longest
        if full and len(lines) < len(ends):
            lines.append([])
        length = length + 1 + len(word) if lines[-1] else len(word)
        lines[-1].append(word)
    ends = [*ends[: len(lines) - 1], ends[-1]]
    return "".join(" ".join(line) + end for line, end in zip(lines, ends, strict=True))
