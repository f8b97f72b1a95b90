"""What ``dragoman translate`` says of single lines, without burying the reader where every line has the same fault."""

from collections import Counter
from typing import Self

from dragoman.evaluation.flags import text_flags
from dragoman.messages import say
from dragoman.records import Translation

NAMED = 10
"""The number of lines of a kind that are named. Further lines are counted."""


class Notes:
    """Notes of some kinds, each said at once until there are `NAMED` of its kind; the end of the block counts them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind, count in self._counts.items():
            if count > NAMED:
                say(f"in all, {count:,} {kind}.")

    def invalid(self, line: int) -> None:
        """The line, counted from 1, is no UTF-8."""
        self._say("lines are not UTF-8", f"line {line} is not UTF-8; what could not be read became U+FFFD.")

    def line(self, line: int, translation: Translation) -> None:
        """What a user should know of the line, counted from 1."""
        if translation.segments > 1:
            self._say(
                "lines were translated in pieces",
                f"line {line} is long and was translated in {translation.segments} pieces.",
            )
        self.faults(f"line {line}", translation)

    def faults(self, name: str, translation: Translation) -> None:
        """What was cut or lost in the translation of what has this name."""
        if translation.cut:
            loops = "loop" in text_flags(translation.src, translation.text)
            advice = ", because it repeats itself: leave the line out, or train the model on such text"
            self._say(
                "translations were cut at the limit (`cut` in `--format jsonl`)",
                f"the translation of {name} was cut at the limit"
                + (f"{advice}." if loops else ". Raise `--inference.max-extra-tokens`."),
            )
        if translation.lost:
            self._say(
                "translations lack or repeat something (`lost` in `--format jsonl`)",
                f"the translation of {name} lacks, or repeats, {', '.join(map(repr, translation.lost))}.",
            )

    def _say(self, kind: str, text: str) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= NAMED:
            say(text)
        if self._counts[kind] == NAMED:
            say("more like this one are counted, not named.")
