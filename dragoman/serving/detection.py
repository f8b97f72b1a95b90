"""Language detection: the language of a text, with a confidence.

`Service.detect` and requests with the source language "auto" call `detect_language`. The log-likelihoods come from
`text/doctor/languages.py`, which also checks corpora. This module prefers the served languages, because no other can be
translated. It reports another one only if the text is clearly written in it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.text.doctor.languages import SURE_NATS, are_similar, detector_code, language_scores

# Letters needed for full confidence. Shorter texts get a lower confidence.
_SURE_CHARS = 20
# The code of ISO 639 for text that is not in a language, such as a row of numbers.
_NO_LANGUAGE = "zxx"


class Detection(NamedTuple):
    """A language code with a confidence from 0 to 100, as in LibreTranslate's API."""

    language: str
    confidence: float


def detect_language(text: str, codes: Sequence[str]) -> list[Detection]:
    """Detections of the languages `codes`, the likeliest first.

    If the text is clearly in another language, that language comes first. Confidence is 0 for a text without letters,
    and for languages that the library does not support. The first call loads the library's model: half a second and
    80 MB. Raises ResourceError if ``TMPDIR`` has no space for it.
    """
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
    if is_other and scores[other] - max(scores[label] for label in told) > SURE_NATS:
        found.insert(0, Detection(other, round(sure * weights[other] / total, 1)))
    return found
