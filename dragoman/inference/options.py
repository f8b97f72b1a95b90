"""Options of a translation: what to preserve, and which details to compute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.text.documents.terms import Terms

Escape = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Preserve:
    """What to preserve in a translation, and how to split texts.

    Parameters
    ----------
    protect
        Keep URLs, placeholders, tags and other protected spans (`text/documents/protected_spans.py`) unchanged.
    terms
        Required translations of certain words.
    by_sentence
        Translate each sentence alone, for models that were trained on single sentences.
    escape
        Function that escapes the translated text between markers, such as `html.escape`.
    """

    protect: bool = True
    terms: "Terms | None" = None
    by_sentence: bool = False
    escape: Escape = str


PRESERVE_NOTHING = Preserve(protect=False)
PRESERVE_DOCUMENT = Preserve(by_sentence=True)
PRESERVE_SUBTITLES = Preserve()


@dataclass(frozen=True, slots=True)
class Details:
    """Additional results for each translation.

    Parameters
    ----------
    alignment
        Links between source and target words. They take another pass through the model.
    flags
        Signs of a wrong translation (`evaluation/flags.py`). They take 0.1 to 0.2 ms per text.
    """

    alignment: bool = False
    flags: bool = True


DEFAULT_DETAILS = Details()
NO_DETAILS = Details(flags=False)
