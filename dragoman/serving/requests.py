"""Records between the APIs and the service: a translation request and its answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dragoman.records import Translation
from dragoman.serving.detection import Detection
from dragoman.serving.documents import PLAIN_TEXT, TextFormat

AUTO = "auto"
"""Source language of a request that asks the server to detect it."""


class BatchOptions(NamedTuple):
    """Options that all texts of a batch share.

    `is_markup`: translations are escaped. `by_sentence`: a text may have several sentences.
    """

    n_best: int = 1
    with_alignment: bool = False
    with_flags: bool = False
    is_markup: bool = False
    by_sentence: bool = False


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """Texts to translate with their options, from any API."""

    texts: Sequence[str]
    source: str
    target: str
    text_format: TextFormat = PLAIN_TEXT
    num_alternatives: int = 0
    with_alignment: bool = False
    with_flags: bool = False

    @property
    def batch_options(self) -> BatchOptions:
        """The options that other texts must share to be in the same batch."""
        form = self.text_format
        n_best = 1 + self.num_alternatives
        return BatchOptions(n_best, self.with_alignment, self.with_flags, form.is_markup, form.by_sentence)

    def for_pivot(self) -> "TranslationRequest":
        """The request for the first of two models, whose output the second model translates."""
        return replace(self, num_alternatives=0, with_alignment=False, with_flags=False)


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A file to translate. `name` and `media_type` describe the translated file."""

    name: str
    media_type: str
    translation: TranslationRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """A translated text. `parts` holds the translations of its parts, and is empty if nothing needed translation.

    `ranks` has one candidate rank for `text` and one for each of the `alternatives`: the rank of the parts' candidates
    that the text is made of.
    """

    text: str
    alternatives: list[str]
    source: str
    detection: Detection | None
    parts: list[Translation]
    ranks: list[int]
