"""What training reports, as records: counts of pairs, scores, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.records import Score
from dragoman.text.corpus.cleaning import CleaningReport


@dataclass(frozen=True, slots=True)
class PairCounts:
    """What cleaning left of the training pairs, and the number of validation and test pairs (None without a test)."""

    cleaning: CleaningReport
    dev: int
    test: int | None


@dataclass(frozen=True, slots=True)
class PartScores:
    """The scores on "validation" or "test" data, translated with a beam of `beam_size`."""

    part: str
    num_sentences: int
    beam_size: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class FinalScores:
    """The scores of a finished run, and what they mean in one line."""

    verdict: str
    parts: tuple[PartScores, ...]


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A score on the data set `data` before and after fine-tuning."""

    data: str
    num_sentences: int
    before: Score
    after: Score


@dataclass(frozen=True, slots=True)
class FineTuningScores:
    """The scores before and after fine-tuning, on each data set."""

    changes: tuple[ScoreChange, ...]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How training ended: the run's folder, the folder of its best model, its steps, and why it stopped.

    `scores` are those in the model's card, by data set and search, such as "test, beam 4".
    """

    run: Path
    model: Path
    steps: int
    reason: str
    scores: Mapping[str, tuple[Score, ...]]
