"""Records that training reports to `Progress.result` or returns: counts of pairs, scores, and how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dragoman.records import Score
from dragoman.text.corpus.cleaning import CleaningReport


@dataclass(frozen=True, slots=True)
class PairCounts:
    """The report of cleaning, and the number of validation and test pairs. `test` is None without a test set."""

    cleaning: CleaningReport
    dev: int
    test: int | None


@dataclass(frozen=True, slots=True)
class PartScores:
    """The scores on a part of the data, "validation" or "test", translated with a beam of `beam_size`."""

    part: str
    num_sentences: int
    beam_size: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class FinalScores:
    """The scores of a finished run, and one line that explains them (`dragoman.evaluation.verdict`)."""

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
    """The result of training.

    Parameters
    ----------
    run
        The folder of the run.
    model
        The folder of its best model.
    steps
        Number of optimizer steps, earlier calls included.
    reason
        Why training stopped, such as "train.max_steps = 1000 reached".
    scores
        The scores in the model's card by data set and search, such as "test, beam 4".
    """

    run: Path
    model: Path
    steps: int
    reason: str
    scores: Mapping[str, tuple[Score, ...]]
