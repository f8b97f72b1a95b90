"""Records between the APIs and the service: a translation request and its answer.

Each module of `apis/` parses its HTTP fields into these records and renders them as its own JSON. So the service does
not know which API a request came from.
"""

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

    Attributes
    ----------
    n_best
        Candidates for each text, the best one included.
    with_alignment, with_flags
        Whether to compute word alignments and flags.
    is_markup
        Whether translations are escaped.
    by_sentence
        Whether a text may have several sentences, which are then translated one by one.
    """

    n_best: int = 1
    with_alignment: bool = False
    with_flags: bool = False
    is_markup: bool = False
    by_sentence: bool = False


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """Texts to translate with their options, from any API.

    Attributes
    ----------
    texts
        The texts. Their number and lengths are within the limits of `ServeSettings`.
    source, target
        Served language codes. `source` may be `AUTO`: then each text has its own language.
    text_format
        The kind of the texts and where to split them.
    num_alternatives
        How many translations to return besides the best one.
    with_alignment, with_flags
        Whether the answer has word alignments and flags.
    """

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
    """A file to translate. `name` and `media_type` describe the translated file.

    `content` is its text in UTF-8, with `num_chars` characters, and `translation` has no texts.
    """

    name: str
    media_type: str
    translation: TranslationRequest
    content: bytes
    num_chars: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A translated text.

    Attributes
    ----------
    text
        The best translation.
    alternatives
        Other translations, best first, without repetitions. There may be fewer than requested.
    source
        The source language, given or detected.
    detection
        The detection, if the language was detected.
    parts
        The translations of the parts of the text. It is empty if nothing needed translation.
    ranks
        One candidate rank for `text` and one for each of the `alternatives`: the rank of the parts' candidates that the
        text is made of.
    """

    text: str
    alternatives: list[str]
    source: str
    detection: Detection | None
    parts: list[Translation]
    ranks: list[int]
