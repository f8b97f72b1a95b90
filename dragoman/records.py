"""Control ids, and records that packages exchange, in the order of the data flow. None holds tensors.

``SentencePair -> Batch -> loss`` in training, ``text -> Batch -> Hypothesis -> Translation -> Score`` in translation.
`Batch` holds tensors and lives in `dragoman.data`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.display import ShownRecord

if TYPE_CHECKING:
    from dragoman.text.documents.terms import Terms

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
NUM_CONTROL_IDS = 4
NEVER_WRITTEN = (PAD_ID, BOS_ID, UNK_ID)
"""Ids that a search does not write. Forced prefixes may contain them."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence and its translation: plain text, without the line end."""

    src: str
    tgt: str


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
        Links between source and target words. A model without a lexicon takes another pass for them.
    flags
        Signs of a wrong translation (`evaluation/flags.py`). They take 0.1 to 0.2 ms per text.
    """

    alignment: bool = False
    flags: bool = True


DEFAULT_DETAILS = Details()


NO_DETAILS = Details(flags=False)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One finished output of a search.

    `ids` are target ids without bos and eos. `token_log_probs` holds one natural-log probability per token, including
    eos if the hypothesis ends with eos (`finished`). `log_prob` is their sum. `score` is `log_prob` after the length
    penalty; higher is better.
    """

    ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float
    finished: bool


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(ShownRecord):
    """One translation of a text, with its token strings and scores.

    If the text was split into segments, `score` and `log_prob` are sums over the segments.
    """

    text: str
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class Translation(ShownRecord):
    """The translation of one text: its candidates, the best first, and notes about them.

    `segments` is the number of segments that the text was split into: usually 1, and 0 for an empty line. `cut` is true
    if an output reached the length limit without eos. `alignment`, if requested, links words of `src` to words of the
    best candidate, counted from 0 and split at white space. `flags` names suspected errors
    (`dragoman.evaluation.flags.FLAGS`). `lost` has the protected spans and terms that are missing or repeated. `parts`
    pairs each segment of `src` with its own translation, as plain text: without markers and escapes. It has the whole
    text as one pair if segments have none of their own, such as after protected spans were inserted.
    """

    src: str
    candidates: tuple[Candidate, ...]
    segments: int
    cut: bool
    alignment: tuple[tuple[int, int], ...] | None = None
    flags: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()

    _names = ("src", "text", "score", "alternatives", "segments", "cut", "alignment", "flags", "lost")

    @property
    def text(self) -> str:
        """The best translation, or "" for an empty line."""
        return self.candidates[0].text if self.candidates else ""

    @property
    def score(self) -> float:
        """The score of the best translation: its log-probability after the length penalty. 0 for an empty line."""
        return self.candidates[0].score if self.candidates else 0.0

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The other translations that the search found (setting `n_best`), from better to worse."""
        return tuple(candidate.text for candidate in self.candidates[1:])


@dataclass(frozen=True, slots=True, repr=False)
class PairScore(ShownRecord):
    """How likely a model finds a given translation.

    `token_log_probs` has the natural-log probability of each of `tokens`, and of the end of the translation as its last
    entry. `log_prob` is their sum.
    """

    src: str
    tgt: str
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float


@dataclass(frozen=True, slots=True)
class Score:
    """The value of a metric, with the signature that states how it was computed.

    Parameters
    ----------
    name : str
        The metric, such as "BLEU".
    value : float
        The value.
    signature : str
        sacreBLEU's signature. Values can be compared only if their signatures are equal.
    interval : tuple of float, optional
        Limits between which 95 % of the values on resampled tests are.
    """

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        span = f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]" if self.interval else ""
        return f"{self.name} {self.value:.2f}{span} ({self.signature})"
