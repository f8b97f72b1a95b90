"""The records of a translation: what every API asks of the service, and what the service answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dragoman.records import Translation
from dragoman.serving.detection import Detection
from dragoman.serving.documents import PLAIN_TEXT, TextFormat

AUTO = "auto"
"""The source language of texts whose language is to be detected."""


class BatchOptions(NamedTuple):
    """What all texts of a batch have in common.

    `is_markup`: translations are written escaped. `by_sentence`: a text may have several sentences.
    """

    n_best: int = 1
    with_alignment: bool = False
    with_flags: bool = False
    is_markup: bool = False
    by_sentence: bool = False


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """Texts to translate, and how, whichever API they came through."""

    texts: Sequence[str]
    source: str
    target: str
    text_format: TextFormat = PLAIN_TEXT
    num_alternatives: int = 0
    with_alignment: bool = False
    with_flags: bool = False

    @property
    def batch_options(self) -> BatchOptions:
        """What decides which other texts can be in a batch with these."""
        form = self.text_format
        n_best = 1 + self.num_alternatives
        return BatchOptions(n_best, self.with_alignment, self.with_flags, form.is_markup, form.by_sentence)

    def for_pivot(self) -> "TranslationRequest":
        """The request to a model whose answer another model reads."""
        return replace(self, num_alternatives=0, with_alignment=False, with_flags=False)


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A file to translate. `name` and `media_type` are those of the translated file."""

    name: str
    media_type: str
    translation: TranslationRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """A translated text. `parts` are the translations of its parts; empty if nothing needed translation.

    `ranks` has, for `text` and each of the `alternatives`, the rank of the candidates of its parts.
    """

    text: str
    alternatives: list[str]
    source: str
    detection: Detection | None
    parts: list[Translation]
    ranks: list[int]
