"""The folder of a run: checkpoints, which hold a whole model and the state to continue, and pointers to two of them.

RUN/config.toml  tokenizer.json  log.jsonl  best  last  averaged/  previous/  corpus/  finished.json
RUN/checkpoints/step_0012000/  a model folder, optimizer.safetensors, state.json

The lock of the folder keeps two commands from training in it at once. The state has everything that determines how a
run continues, besides weights and optimizer.

Random numbers need no state: every step seeds the generator of dropout from (seed, step), and batch order and BPE
dropout are pure functions of (seed, epoch).
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dragoman.errors import CheckpointError, ModelError
from dragoman.files import remove_folder, remove_leftovers, verify_folder, write_file
from dragoman.training.run.watchdog import WatchdogState


@dataclass(slots=True)
class ValidationRecord:
    """The step and scores of a validation. `score` is the chosen metric, higher is better. `bleu` is 0 if unknown."""

    step: int
    score: float
    bleu: float = 0.0


@dataclass(frozen=True, slots=True)
class Decay:
    """The line on which the learning rate falls: from `factor` at `step` to 0 after step `end`.

    The decay started after step `start`, because of a limit or because patience was lost (`by_patience`). `progress` is
    the share of the run that was done at `step`.
    """

    start: int
    step: int
    progress: float
    factor: float
    end: int
    by_patience: bool = False


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
    stages : list of list of int
        The first epoch of each of several corpora, and the first one without it, if they differ.
    patience_step : int
        Validations up to this step do not count for patience. -1 before the last stage.
    decay : Decay, optional
        The fall of the learning rate at the end of the run, once it has started.
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
    stages: list[list[int]] = field(default_factory=list)
    patience_step: int = 0
    decay: Decay | None = None
    start_score: float | None = None
    validations: list[ValidationRecord] = field(default_factory=list)
    watchdog: WatchdogState = field(default_factory=WatchdogState)

    @property
    def best(self) -> ValidationRecord | None:
        """The earliest validation with the highest score."""
        return max(self.validations, key=lambda record: (record.score, -record.step), default=None)

    @property
    def steady_scores(self) -> list[float]:
        """The validation scores before the decay. In the decay, scores rise even if a longer run would not help."""
        end = self.step if self.decay is None else self.decay.start
        return [record.score for record in self.validations if record.step <= end]

    @property
    def validations_since_best(self) -> int:
        """The number of validations since the best score. Before the last stage of several corpora it is 0."""
        best = self.best
        if best is None or self.patience_step < 0:
            return 0
        return sum(record.step > max(best.step, self.patience_step) for record in self.validations)

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
        decay = Decay(**found) if (found := content.pop("decay", None)) else None
        if not {"step", "epoch", "step_in_epoch"} <= content.keys() <= {each.name for each in fields(cls)}:
            raise ValueError("the fields are not those of a training state")
        return cls(**content, validations=records, watchdog=watchdog, decay=decay)


CORPUS = "corpus"
"""The folder in a run with the sentences that were in memory when the run started."""
_STEP_FOLDER = re.compile(r"step_([0-9]{7,12})")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of a run: where its checkpoints, pointers and averaged model are."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    def step_folder(self, step: int) -> Path:
        """The folder of the checkpoint after optimizer step `step`."""
        return self.checkpoints / f"step_{step:07d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in ascending order."""
        if not self.checkpoints.is_dir():
            return []
        found = (_STEP_FOLDER.fullmatch(path.name) for path in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def _point(self, name: str, step: int) -> None:
        """Let the pointer `name` (best or last) name the checkpoint of a step."""
        write_file(self.path / name, f"checkpoints/{self.step_folder(step).name}\n")

    def point_to(self, state: TrainState) -> None:
        """Let both pointers name checkpoints of `state`. Newer checkpoints, which it does not list, may be damaged."""
        self._point("last", state.step)
        if state.best is not None:
            self._point("best", state.best.step)
        else:
            (self.path / "best").unlink(missing_ok=True)

    @property
    def averaged(self) -> Path:
        """The folder of the averaged model of a finished run."""
        return self.path / "averaged"

    @property
    def previous(self) -> Path:
        """The folder of the model from before the run went back to continue with a higher limit."""
        return self.path / "previous"

    def model_bytes(self) -> int:
        """The disk space of the checkpoints and the averaged model, in bytes."""
        folders = [self.averaged, *map(self.step_folder, self.steps())]
        return sum(path.stat().st_size for folder in folders if folder.is_dir() for path in folder.iterdir())

    def tidy(self) -> None:
        """Remove files that a killed process left incomplete."""
        for folder in (self.path, self.checkpoints, self.path / CORPUS):
            remove_leftovers(folder)

    def damage(self, step: int) -> ModelError | None:
        """What is wrong with the checkpoint of a step, or None if it is intact."""
        try:
            verify_folder(self.step_folder(step))
        except ModelError as error:
            return error
        return None

    def remove_all_but(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of all other steps."""
        for step in self.steps():
            if step not in steps:
                remove_folder(self.step_folder(step))


LOCK = ".lock"


@contextlib.contextmanager
def lock_run(run: Path) -> Iterator[None]:
    """Hold RUN/.lock, and create the folder if it is missing. The system releases the lock however the process ends.

    Raises CheckpointError if another process holds the lock. A disk that does not support locks is not locked.
    """
    run.mkdir(parents=True, exist_ok=True)
    path = run / LOCK
    with contextlib.ExitStack() as stack:
        while True:
            stack.close()
            stream = stack.enter_context(path.open("a+", encoding="ascii"))
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.seek(0)
                number = stream.read().strip()
                raise CheckpointError(
                    f"{run} is being trained by another process{number and f' (id {number})'}. Wait until it ends, "
                    "or choose another `--out`."
                ) from None
            except OSError:
                break
            # The previous holder may have removed the file since it was opened. No other process would see this lock.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(stream.fileno()).st_ino:
                    break
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
