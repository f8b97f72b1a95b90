"""In which language a text is, and how sure that is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.text.doctor.languages import are_similar, detector_code, known_languages, language_scores

_SURE_CHARS = 20
"""About this many letters tell one language from another; shorter texts count as less sure."""
_SURE_NATS = 10.0
"""How much likelier another language must be before a text is taken to be in none of those to choose from."""
_NO_LANGUAGE = "zxx"


class Detection(NamedTuple):
    """A language and how sure that is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Tells languages from each other: those that are served, and all others that the library for it knows.

    The first one takes half a second to make, and 100 MB.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = list(languages)
        known_languages()  # loads the library's model, or fails now

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Detection]:
        """The served languages, or those `among` them, the most likely first.

        Where a text is clearly in another language that one comes first. Of a text without letters nothing is sure, as
        of languages that the library does not know.
        """
        codes = self._languages if among is None else among
        labels = {code: detector_code(code) for code in codes}
        letters = sum(map(str.isalpha, text))
        scores = language_scores(text) if letters else {}
        told = [label for label in labels.values() if label in scores]
        if not told:
            return [Detection(code, 0.0) for code in codes]
        highest = max(scores.values())
        # Softened for long texts, whose words are not independent.
        scale = math.sqrt(len(text.encode("utf-8", "surrogatepass")))
        weights = {label: math.exp((score - highest) / scale) for label, score in scores.items()}
        others = [label for label in scores if not any(are_similar(label, each) for each in labels.values())]
        other = max(others, key=scores.__getitem__, default="")
        served = {code: weights.get(label, 0.0) for code, label in labels.items()}
        total = sum(served.values()) + weights.get(other, 0.0)
        sure = 100.0 * min(1.0, letters / _SURE_CHARS) ** 0.5
        found = [Detection(code, round(sure * weight / total, 1)) for code, weight in served.items()]
        found.sort(key=lambda one: -one.confidence)
        is_other = other not in ("", _NO_LANGUAGE) and letters >= _SURE_CHARS
        if is_other and scores[other] - max(scores[label] for label in told) > _SURE_NATS:
            found.insert(0, Detection(other, round(sure * weights[other] / total, 1)))
        return found
