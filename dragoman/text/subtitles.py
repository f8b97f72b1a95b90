"""Subtitles in SubRip form (.srt): the texts of the cues, and all else as it is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_TIME = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d{1,3}\s*-->\s*\d+:\d\d:\d\d[,.]\d{1,3}")
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Cue:
    """What one person says in one cue, its lines joined by spaces; `breaks` has their line ends."""

    text: str
    breaks: tuple[str, ...]

    def wrapped(self, translation: str) -> str:
        """On as many lines as it was, about as long as each other, unless it has fewer words."""
        words = _WORD.findall(translation)
        longest = -(-len(" ".join(words)) // len(self.breaks))
        lines: list[list[str]] = [[]]
        for word in words:
            full = lines[-1] and len(" ".join(lines[-1])) + (len(word) + 1) / 2 >= longest
            if full and len(lines) < len(self.breaks):
                lines.append([])
            lines[-1].append(word)
        ends = [*self.breaks[: len(lines) - 1], self.breaks[-1]]
        return "".join(" ".join(line) + end for line, end in zip(lines, ends, strict=True))


def read_subtitles(text: str) -> list[str | Cue]:
    """The file in parts: what stays (numbers, times, blank lines), and what is said.

    Where the lines of a cue begin with dashes, each is another person's.
    """
    parts: list[str | Cue] = []
    said: list[tuple[str, str]] = []
    in_cue = False

    def finish() -> None:
        if said:
            parts.append(Cue(" ".join(line for line, _ in said), tuple(end for _, end in said)))
            said.clear()

    for match in _LINE.finditer(text):
        raw = match.group()
        line = raw.rstrip("\r\n")
        if not in_cue or not line.strip():
            finish()
            parts.append(raw)
            in_cue = bool(_TIME.match(line))
            continue
        if dash := _DASH.match(line):
            finish()
            parts.append(dash.group())
        said.append((line[dash.end() if dash else 0 :].strip(), raw[len(line) :]))
    finish()
    return parts


def with_translations(parts: Sequence[str | Cue], translations: Sequence[str]) -> str:
    """The file with what is said replaced, in order."""
    following = iter(translations)
    return "".join(part if isinstance(part, str) else part.wrapped(next(following)) for part in parts)
