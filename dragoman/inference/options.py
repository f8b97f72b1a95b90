"""What a translation must keep, and what is reported beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.text.documents.terms import Terms

Escape = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Preserve:
    """What comes through a translation unchanged, and how a text is cut.

    `protect`: URLs, placeholders, tags and other protected spans (`text/documents/protected_spans.py`) stay as they
    are. `terms`: translations that certain words must have. `by_sentence`: each sentence is translated on its own, for
    models that were trained on single sentences. `escape` writes the text between markers, such as `html.escape`.
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
    """What is computed beside a translation.

    `alignment`: links between words, which take another pass through the model. `flags`: what looks wrong
    (`evaluation/flags.py`), which takes 0.1 to 0.2 ms a text.
    """

    alignment: bool = False
    flags: bool = True


DEFAULT_DETAILS = Details()
NO_DETAILS = Details(flags=False)
