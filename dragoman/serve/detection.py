"""In which of the served languages a text is, and how sure that is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.languages import main_language
from dragoman.text.doctor.languages import identifier_of

_SURE_CHARS = 20
"""About so many letters tell one language from another; shorter texts count as less sure."""
_ENOUGH_CHARS = 2000


class Detection(NamedTuple):
    """A language and how sure that is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Tells the served languages from each other, as far as the library for it (extra `detect`) is there and knows
    them. Making one takes up to some seconds, and 100 MB.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = list(languages)
        self.is_able = True
        if self.is_able:
            self._identifier, self._known = identifier_of(self._languages)

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Detection]:
        """The languages, or those `among` them, the most likely first.

        A text without letters could be any: nothing is sure then, as with languages that the library does not know.
        """
        languages = self._languages if among is None else among
        letters = sum(char.isalpha() for char in text[:_ENOUGH_CHARS])
        weights = self._weights(text[:_ENOUGH_CHARS]) if letters and self.is_able and self._known else {}
        total = sum(weights.get(main_language(code), 0.0) for code in languages)
        if not total:
            return [Detection(code, 0.0) for code in languages]
        sure = 100.0 * min(1.0, letters / _SURE_CHARS) ** 0.5
        found = [Detection(code, round(sure * weights.get(main_language(code), 0.0) / total, 1)) for code in languages]
        return sorted(found, key=lambda one: -one.confidence)

    def _weights(self, text: str) -> dict[str, float]:
        """In proportion to probabilities, softened for long texts, whose words are not independent."""
        scale = math.sqrt(len(text.encode("utf-8", "surrogatepass")))
        ranked = self._identifier.rank(text)
        return {language: math.exp((score - ranked[0][1]) / scale) for language, score in ranked}
