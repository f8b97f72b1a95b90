"""Notes of ``dragoman translate`` about single lines. Only the first few of each kind are printed."""

from collections import Counter
from typing import Self

from dragoman.evaluation.flags import count_sentences, is_unsure, text_flags
from dragoman.messages import say
from dragoman.records import Translation

NAMED = 10
"""The number of printed notes of each kind. Further notes are only counted."""


class Notes:
    """A context manager that prints the first `NAMED` notes of each kind at once, and the number of all at its end.

    `by_sentence`: each sentence is translated alone. `says_unsure`: lines that the model is unsure of are noted.
    """

    def __init__(self, by_sentence: bool = False, says_unsure: bool = False) -> None:
        self._counts: Counter[str] = Counter()
        self._by_sentence, self._says_unsure = by_sentence, says_unsure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind, count in self._counts.items():
            if count > NAMED:
                say(f"in total, {count:,} {kind}.")

    def invalid(self, line: int) -> None:
        """Note that a line, counted from 1, is not UTF-8."""
        self._say("lines are not UTF-8", f"line {line} is not UTF-8; invalid bytes became U+FFFD.")

    def line(self, line: int, translation: Translation) -> None:
        """Note what the user should know about a line, counted from 1."""
        if translation.segments > (count_sentences(translation.src) if self._by_sentence else 1):
            split = f"line {line} is long and was split into {translation.segments} segments."
            self._say("lines were split into segments", split)
        if self._says_unsure and is_unsure(translation):
            advice = "Check it; `--flags` marks such lines."
            self._say("translations are unsure", f"the model is unsure of the translation of line {line}. {advice}")
        self.faults(f"line {line}", translation)

    def faults(self, name: str, translation: Translation) -> None:
        """Note what the translation of the text `name` cut off, lost or repeated."""
        if translation.cut:
            cause = ". Raise `--inference.max-extra-tokens`."
            if "loop" in text_flags(translation.src, translation.text):
                cause = ", because it repeats itself. Leave the line out, or train the model on such text."
            kind = "translations were cut at the limit (`cut` in `--format jsonl`)"
            self._say(kind, f"the translation of {name} was cut at the limit{cause}")
        if translation.lost:
            kind = "translations lost or repeated something (`lost` in `--format jsonl`)"
            lost = ", ".join(map(repr, translation.lost))
            self._say(kind, f"the translation of {name} lost or repeated {lost}.")

    def _say(self, kind: str, text: str) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= NAMED:
            say(text)
        if self._counts[kind] == NAMED:
            say("further notes of this kind are only counted.")
