"""The records that packages hand to each other, in the order of the data flow: strings and numbers, no tensors.

``SentencePair -> Batch -> loss`` in training, ``text -> Batch -> Hypothesis -> Translation -> Score`` in translation.
`Batch` holds tensors and lives in `dragoman.data`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source sentence and its translation: plain text, without the line end."""

    src: str
    tgt: str


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One finished output of a search.

    `ids` are target ids without bos and eos. `token_log_probs` holds one natural-log probability a token, eos
    included where the hypothesis ended by itself (`finished`); `log_prob` is their sum, and `score` is `log_prob`
    after the length penalty: higher is better.
    """

    ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float
    finished: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation of a text with the token strings and scores behind it.

    For a text that was split into several segments `score` and `log_prob` are sums over the segments.
    """

    text: str
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    log_prob: float
    score: float


@dataclass(frozen=True, slots=True)
class Translation:
    """The answer to one input text: the best candidate first, and what happened on the way.

    `segments` is the number of segments the input was split into (0 for an empty line, 1 normally).
    `cut` is true where some output reached the length limit without ending by itself. `alignment`, where requested,
    links words of `src` to words of the best candidate, both counted from 0 as `str.split` finds them. `flags` name
    what looks wrong (`dragoman.evaluation.flags.FLAGS`). `lost` names protected spans and targets of terms that the
    translation does not have as often as it should.
    """

    src: str
    candidates: tuple[Candidate, ...]
    segments: int
    cut: bool
    alignment: tuple[tuple[int, int], ...] | None = None
    flags: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The best translation; the empty string for an empty line."""
        return self.candidates[0].text if self.candidates else ""


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's value, with the signature that states how it was computed.

    95 % of the values on resampled tests lie in `interval`, where requested.
    """

    name: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        span = f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]" if self.interval else ""
        return f"{self.name} {self.value:.2f}{span} ({self.signature})"
