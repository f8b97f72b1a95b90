"""The watchdog: warns in plain words about problems of a run and what to try, and skips steps that would ruin it.

It sees only numbers: the loss and gradient norm of each step, and the results of each validation. All its memory is
part of the state of the run, so a resumed run gets the same warnings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median
from typing import Any

_NORMS = 64  # steps in the running median
_LEAST_NORMS = 16  # steps before the median is used
# Times the median. The largest of the demo's 181 steps was 1.9, of 300 steps of 512 tokens on Multi30k 1.7.
_SPIKE = 20.0
_IN_A_ROW = 5
_FALLING_NATS = 0.02
_VALIDATIONS = 3  # validations in a row that must agree before a warning
_SMOOTHING = 0.95


class Verdict(Enum):
    """What to do with the gradient of a step."""

    APPLY = "apply"
    SKIP = "skip"
    GO_BACK = "go back"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class RunWarning:
    """A problem: a short name for programs, and a sentence that says what to try."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ValidationLosses:
    """The losses of a validation, in nats per token, on dev and in training.

    `shuffled_loss` is that with the sources of other sentences, or None if dev has too few pairs. `own_loss` is that
    of the same pairs with their own sources, or None if those are all of dev. `distinct` is the number of distinct
    translations divided by that of distinct sources, or None if nothing was translated.
    """

    step: int
    dev_loss: float
    shuffled_loss: float | None
    train_loss: float
    distinct: float | None = None
    own_loss: float | None = None

    @property
    def with_own_sources(self) -> float:
        """The loss to compare `shuffled_loss` with."""
        return self.dev_loss if self.own_loss is None else self.own_loss


@dataclass(slots=True)
class WatchdogState:
    """The memory of the watchdog: counts since the start of the run, recent gradient norms, and every validation.

    `rate_factor` multiplies the learning rate. It is 1, or 0.5 after the run went back to a checkpoint.
    """

    not_finite: int = 0
    not_finite_in_a_row: int = 0
    spikes: int = 0
    rate_factor: float = 1.0
    train_loss: float | None = None
    norms: list[float] = field(default_factory=list)
    measured: list[ValidationLosses] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "WatchdogState":
        """Read the output of `asdict`. Raises TypeError for anything else."""
        measured = [ValidationLosses(**each) for each in content.get("measured", [])]
        return cls(**{**content, "measured": measured})

    def judge_step(self, step: int, loss: float, norm: float) -> tuple[Verdict, RunWarning | None]:
        """Decide what to do with a step, from its loss (nats per token) and gradient norm."""
        finite = abs(loss) < float("inf") and norm < float("inf")  # false for NaN
        if not finite:
            self.not_finite += 1
            self.not_finite_in_a_row += 1
            what = "loss" if not abs(loss) < float("inf") else "gradient"
            if self.not_finite_in_a_row < _IN_A_ROW:
                return Verdict.SKIP, RunWarning(
                    "not finite",
                    f"Step {step} is skipped: its {what} is not finite ({self.not_finite} so far). If this happens "
                    "again, lower `train.learning_rate`; in bfloat16, set `train.precision` to float32.",
                )
            self.not_finite_in_a_row = 0
            return Verdict.STOP if self.rate_factor < 1 else Verdict.GO_BACK, None
        self.not_finite_in_a_row = 0
        usual = median(self.norms) if len(self.norms) >= _LEAST_NORMS else float("inf")
        self.norms = [*self.norms[1 - _NORMS :], norm]
        if norm > _SPIKE * usual:
            self.spikes += 1
            return Verdict.SKIP, RunWarning(
                "gradient spike",
                f"Step {step} is skipped: its gradient is {norm / usual:,.0f} times as large as usual ({self.spikes} "
                "so far). A few such batches do no harm. If there are many, look for bad pairs in the data, or lower "
                "`train.learning_rate`.",
            )
        last = loss if self.train_loss is None else self.train_loss
        self.train_loss = _SMOOTHING * last + (1 - _SMOOTHING) * loss
        return Verdict.APPLY, None

    def with_half_rate(self) -> "WatchdogState":
        """The memory for a restart from the last good step, with half the learning rate."""
        return replace(self, rate_factor=0.5, not_finite_in_a_row=0, norms=[])

    def judge_validation(self, measured: ValidationLosses, warmup: int, guessing_loss: float) -> list[RunWarning]:
        """The problems that have not been reported yet.

        `guessing_loss` is the loss of a model that knows only token frequencies: the entropy of the training targets.
        Nothing is reported before the warm-up is over and three validations agree.
        """
        self.measured.append(measured)
        since = [each for each in self.measured if each.step >= warmup]
        if len(since) < _VALIDATIONS:
            return []
        latest = since[-_VALIDATIONS:]
        rate_too_high = _rate_too_high(self.measured, latest, guessing_loss)
        found = [
            rate_too_high or _ignores_source(latest),  # a model that has learned nothing needs no other warning
            _same_output(latest),
            _over_fitting(self.measured, latest),
        ]
        new = [finding for finding in found if finding is not None and finding.name not in self.said]
        self.said += [finding.name for finding in new]
        return new


def _ignores_source(latest: Sequence[ValidationLosses]) -> RunWarning | None:
    """Warn if the loss is no worse with the sources of other sentences."""
    other = latest[-1].shuffled_loss
    if other is None or any(_needs_source(each) for each in latest):
        return None
    return RunWarning(
        "ignores the source",
        f"The output does not depend on the source: the validation loss is {other:.2f} with the sources of other "
        f"sentences and {latest[-1].with_own_sources:.2f} with the right ones. Check that line n of both files is the "
        "same sentence. If it is, train longer, or lower `train.learning_rate`.",
    )


def _needs_source(measured: ValidationLosses) -> bool:
    own, other = measured.with_own_sources, measured.shuffled_loss
    return other is None or other - own > 0.01 + 0.01 * own


def _same_output(latest: Sequence[ValidationLosses]) -> RunWarning | None:
    if any(each.distinct is None or each.distinct > 0.1 for each in latest):
        return None
    return RunWarning(
        "same output",
        f"Nearly every sentence gets the same translation ({latest[-1].distinct:.0%} of the translations differ). "
        "Check the target side for a repeated sentence. If there is none, lower `train.learning_rate`.",
    )


def _rate_too_high(
    measured: Sequence[ValidationLosses], latest: Sequence[ValidationLosses], guessing_loss: float
) -> RunWarning | None:
    """Warn if the model predicts no better than token frequencies after the warm-up, or if the training loss rises.

    The training loss includes label smoothing and dropout, so while the loss on dev falls, the run is only young.
    """
    best = min(each.train_loss for each in measured)
    falls = latest[-1].dev_loss < latest[0].dev_loss - _FALLING_NATS
    useless = all(each.train_loss > 0.95 * guessing_loss for each in latest) and not falls
    rising = all(each.train_loss > best + 0.5 for each in latest)
    if not useless and not rising:
        return None
    stays = abs(latest[-1].train_loss - measured[0].train_loss) < _FALLING_NATS
    if not rising and stays and latest[-1].train_loss > 1.05 * guessing_loss:
        return RunWarning(
            "nothing learnt",
            f"The training loss has stayed at {latest[-1].train_loss:.2f} since step {measured[0].step}: the learning "
            "rate is probably too low. Start again with ten times `train.learning_rate`.",
        )
    now = f"The training loss is {latest[-1].train_loss:.2f}"
    why = f"was {best:.2f} before" if rising else f"guessing frequent words would give {guessing_loss:.2f}"
    return RunWarning(
        "learning rate too high",
        f"{now}, but {why}: the learning rate is probably too high. Start again with a tenth of "
        "`train.learning_rate`, or more `train.warmup_steps`.",
    )


def _over_fitting(measured: Sequence[ValidationLosses], latest: Sequence[ValidationLosses]) -> RunWarning | None:
    """Warn if the loss on dev rises while the training loss falls."""
    best = min(measured, key=lambda each: each.dev_loss)
    worse = all(each.step > best.step and each.dev_loss > 1.05 * best.dev_loss + 0.05 for each in latest)
    if not worse or latest[-1].train_loss >= best.train_loss:
        return None
    return RunWarning(
        "over-fitting",
        f"Over-fitting since step {best.step}: the validation loss was {best.dev_loss:.2f} there and is "
        f"{latest[-1].dev_loss:.2f} now, while the training loss falls. The best checkpoint is kept. More data helps "
        "most. Otherwise try a smaller `model.preset`, a higher `model.dropout`, or `tokenizer.bpe_dropout` = 0.1.",
    )
