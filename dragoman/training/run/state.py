"""The state of a run: everything that determines how it continues, besides weights and optimizer.

Random numbers need no state: every step seeds the generator of dropout from (seed, step), and batch order and BPE
dropout are pure functions of (seed, epoch).
"""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from dragoman.training.run.watchdog import WatchdogState


@dataclass(slots=True)
class ValidationRecord:
    """The step and score of a validation. `score` is the chosen metric, higher is better."""

    step: int
    score: float


@dataclass(slots=True)
class TrainState:
    """Counts since the start of the run, and everything else that a resumed run needs to take the same steps.

    Attributes
    ----------
    step : int
        Optimizer steps taken.
    epoch, step_in_epoch : int
        The position of the next step in the data. Both count from 0.
    sentences, tgt_tokens : int
        Sentence pairs and target tokens trained on, without padding.
    seconds : float
        Time spent on training and validating.
    skipped_steps : int
        Steps whose gradient the watchdog discarded.
    window_loss, window_nll, window_tokens, window_seconds : float or int
        Sums since the last log line, so that a resumed run logs the same numbers.
    micro_batch_splits : int
        Parts in which each micro-batch is computed. More than 1 if memory ran out.
    step_seconds : list of float
        The durations of the newest steps. Clocks do not count in comparisons.
    fitted : dict of str to float
        The settings that the run fits to its limits, by key, and their values before they were fitted.
    refits : list of dict
        The earlier values of settings that were fitted again, by key, and the first `step` with the new values.
    start_score : float, optional
        The validation score of the model that fine-tuning started from.
    validations : list of ValidationRecord
        All validations, in the order of steps.
    watchdog : WatchdogState
        The memory of the watchdog.
    """

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    sentences: int = 0
    tgt_tokens: int = 0
    seconds: float = 0.0
    skipped_steps: int = 0
    window_loss: float = 0.0
    window_nll: float = 0.0
    window_tokens: int = 0
    window_seconds: float = 0.0
    micro_batch_splits: int = 1
    step_seconds: list[float] = field(default_factory=list, compare=False)
    fitted: dict[str, float] = field(default_factory=dict)
    refits: list[dict[str, float]] = field(default_factory=list)
    start_score: float | None = None
    validations: list[ValidationRecord] = field(default_factory=list)
    watchdog: WatchdogState = field(default_factory=WatchdogState)

    @property
    def best(self) -> ValidationRecord | None:
        """The earliest validation with the highest score."""
        return max(self.validations, key=lambda record: (record.score, -record.step), default=None)

    @property
    def validations_since_best(self) -> int:
        """The number of validations since the best score."""
        best = self.best
        return sum(record.step > best.step for record in self.validations) if best else 0

    def to_json(self) -> str:
        """The content of state.json. Numbers are read back exactly."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "TrainState":
        """Read the output of `to_json`, of older versions too. Raises ValueError, KeyError or TypeError."""
        content: dict[str, Any] = json.loads(text)
        if "parts" in content:  # its name in older runs
            content["micro_batch_splits"] = content.pop("parts")
        records = [ValidationRecord(**record) for record in content.pop("validations")]
        watchdog = WatchdogState.from_dict(content.pop("watchdog", {}))
        if not {"step", "epoch", "step_in_epoch"} <= content.keys() <= {each.name for each in fields(cls)}:
            raise ValueError("the fields are not those of a training state")
        return cls(**content, validations=records, watchdog=watchdog)
