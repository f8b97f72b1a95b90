"""What the contenders of `benchmarks/time_to_quality.py` share: the task of one curve, and the scores of its points."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from side_by_side.corpus import Corpus

LOG_EVERY_STEPS = 5
GREEDY_BATCH = 64

LATE_MINUTES = 0.5
"""A last point may be so much later than the budget: the time of preparing the data, or of the last step."""

Point = tuple[float, int, float]
"""Minutes of training since the start of the program, steps, and the score of the validation set."""


@dataclass(frozen=True, slots=True)
class Task:
    """One curve to measure. `work` is its working folder, which is removed when the curve is finished.

    `every_tokens` are the tokens of full batches between two points of a peer's curve. Dragoman validates as its
    default recipe does.
    """

    corpus: Corpus
    metric: str
    seed: int
    minutes: float
    work: Path
    every_tokens: int = 200_000


def score(metric: str, outputs: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Return BLEU (13a) or chrF2 of texts, by sacreBLEU, with its signature."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer: Any = BLEU() if metric == "bleu" else CHRF()
    found = scorer.corpus_score(list(outputs), [list(references)])
    return round(float(found.score), 2), str(scorer.get_signature())


def in_time(points: Sequence[Point], task: Task) -> list[Point]:
    """Return the points within the budget. Raises RuntimeError if there are none."""
    found = [point for point in points if point[0] <= task.minutes + LATE_MINUTES]
    if not found:
        raise RuntimeError(f"no validation or checkpoint came within {task.minutes:g} minutes: see {task.work}")
    return found


def steps_between(every_tokens: int, batch_tokens: float | str) -> int:
    """Return the steps between two points of a peer's curve, a multiple of the steps between lines of its log."""
    return LOG_EVERY_STEPS * max(1, round(every_tokens / int(batch_tokens) / LOG_EVERY_STEPS))


def output_limit(src_tokens: int) -> int:
    """Return the most tokens of a greedy output. Without a limit, an untrained model writes endlessly."""
    return 2 * src_tokens + 10


def text_of(pieces: str) -> str:
    """Return the text of SentencePiece pieces that are separated by spaces."""
    return pieces.replace(" ", "").replace("\u2581", " ").strip()
