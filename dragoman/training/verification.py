"""Check that a run resumes exactly: compare uninterrupted steps with the same steps and a kill among them."""

import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from dragoman.config import Config
from dragoman.config.loading import flag_of
from dragoman.errors import CheckpointError
from dragoman.files import MANIFEST
from dragoman.signals import StopRequest, clean_up_when_terminated, hold_back_signals
from dragoman.training.limits import fitting_values
from dragoman.training.run.frozen_settings import frozen_config
from dragoman.training.run.run_folder import CORPUS, RunFolder

_CLOCKS = {"seconds", "step_seconds", "window_seconds", "tokens_per_second"}
_POLL_SECONDS = 0.005
_MOST_SECONDS_BEFORE_KILL = 0.5
_TRIES = 5
_MORE_STEPS = 1000  # beyond those compared: no child ends before its kill, and a forgotten one ends in the end
_COMMAND = (sys.executable, "-m", "dragoman")


@dataclass(frozen=True, slots=True)
class ResumeReport:
    """Steps `first_step` + 1 to `last_step`, without interruption and with a SIGKILL after `killed_after`.

    `differences` names every tensor, field of the state and line of the log that is not equal bit for bit.
    """

    first_step: int
    killed_after: int
    last_step: int
    tensors: int
    log_lines: int
    differences: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """True if everything is equal bit for bit."""
        return not self.differences


def verify_resume(
    run: Path, steps: int = 20, seed: int = 1, timeout_seconds: float = 600.0, command: Sequence[str] = _COMMAND
) -> ResumeReport:
    """Train two copies of a run from its newest intact checkpoint: `steps` steps, and the same steps with a kill.

    The run itself does not change. Its corpus must be where it was, and the disk needs space for some checkpoints.
    `steps` is at least 2. ``train --out COPY ...`` is appended to `command`, the command of dragoman. Its output goes
    to a file, and if it fails, the last line goes into the error. `seed` determines the instant of the kill.

    Raises CheckpointError if the run has no intact checkpoint, or if training fails or takes longer than
    `timeout_seconds` between two checkpoints.
    """
    config = frozen_config(run) or Config()
    ends = config.train.schedule in ("linear", "cosine")  # the schedule, at `train.max_steps`
    first = _newest_intact(RunFolder(run), config.train.max_steps - max(2, steps) if ends else math.inf)
    middle, last = first + max(1, steps // 2), first + max(2, steps)
    place = run.resolve().parent
    with clean_up_when_terminated(), tempfile.TemporaryDirectory(prefix=".verify-", dir=place) as name:
        # With other limits, the copies would fit these settings again.
        flags = [f"{flag_of(key)}={value}" for key, value in fitting_values(config, ()).items()]
        endless = [] if ends else [f"--train.max-steps={last + _MORE_STEPS}"]
        children = _Children(Path(name), run, first, (*flags, *endless), command, timeout_seconds)
        straight = children.copy_run("straight")
        children.train_until(straight, last)
        resumed, killed_after = children.kill_between(middle, last, random.Random(seed))
        children.train_until(resumed, last)
        tensors, differences = _compare(RunFolder(straight).step_folder(last), RunFolder(resumed).step_folder(last))
        lines = [_log_lines(folder / "log.jsonl", first, last) for folder in (straight, resumed)]
        differences += [f"log.jsonl: {ours} and {theirs}" for ours, theirs in zip_longest(*lines) if ours != theirs]
    return ResumeReport(first, killed_after, last, tensors, len(lines[0]), tuple(differences))


@dataclass(frozen=True, slots=True)
class _Children:
    """Copies of a run, each trained by a process that is killed."""

    place: Path
    run: Path
    first: int
    flags: Sequence[str]
    command: Sequence[str]
    timeout_seconds: float

    def copy_run(self, name: str) -> Path:
        """A copy with one checkpoint and everything else that a run needs to continue. Its data is linked."""
        target, source = RunFolder(self.place / name), RunFolder(self.run)
        shutil.copytree(source.step_folder(self.first), target.step_folder(self.first))
        for file in ("config.toml", "log.jsonl"):
            if (self.run / file).exists():
                shutil.copyfile(self.run / file, target.path / file)
        for data in ("data", CORPUS):
            if (self.run / data).exists():
                (target.path / data).symlink_to((self.run / data).resolve(), target_is_directory=True)
        return target.path

    def kill_between(self, middle: int, last: int, rng: random.Random) -> tuple[Path, int]:
        """A copy whose training was killed after step `middle`, before `last` was saved, and its newest step."""
        more_seconds = _MOST_SECONDS_BEFORE_KILL
        for _ in range(_TRIES):
            copy = self.copy_run("resumed")
            self.train_until(copy, middle, rng.uniform(0, more_seconds))
            if (newest := _newest_intact(RunFolder(copy))) < last:
                return copy, newest
            shutil.rmtree(copy)
            more_seconds /= 8
        raise CheckpointError(f"{last - middle} steps of {self.run} end too quickly to be interrupted. Set more steps.")

    def train_until(self, copy: Path, step: int, more_seconds: float = 0.0) -> None:
        """Train until the checkpoint of `step` exists and `more_seconds` have passed. Then send SIGKILL."""
        limits = {"max-epochs": 0, "max-minutes": 0, "patience": 0}
        often = {"checkpoint-every-steps": step, "log-every-steps": 1}
        flags = [f"--train.{name}={value}" for name, value in (limits | often).items()]
        said = self.place / "stderr"
        arguments = [*self.command, "train", "--out", str(copy), *self.flags, *flags]
        with hold_back_signals() as stop, said.open("wb") as stream:
            child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
            try:
                self._wait_for(RunFolder(copy).step_folder(step) / MANIFEST, child, said, stop)
                time.sleep(more_seconds)
            finally:
                child.kill()
                child.wait()

    def _wait_for(self, path: Path, child: "subprocess.Popen[bytes]", said: Path, stop: StopRequest) -> None:
        end = time.monotonic() + self.timeout_seconds
        while not path.exists() and stop.signal_number is None:
            if child.poll() is not None or time.monotonic() > end:
                words = said.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
                problem = "ended early" if child.poll() is not None else f"took over {self.timeout_seconds:g} s"
                raise CheckpointError(f"Training a copy of {self.run} on {problem}. It said last: {words}")
            time.sleep(_POLL_SECONDS)


def _newest_intact(run: RunFolder, below: float = math.inf) -> int:
    problem = "it has no checkpoint. Train it for a while first."
    if run.steps() and below < math.inf:
        problem = f"it has no checkpoint before step {below:.0f}, which the length of its schedule requires."
    for step in reversed([step for step in run.steps() if step < below]):
        if (damage := run.damage(step)) is None:
            return step
        problem = str(damage)
    raise CheckpointError(f"{run.path} cannot be continued: {problem}")


def _compare(one: Path, other: Path) -> tuple[int, list[str]]:
    """The number of tensors, and the differences between two checkpoints. Clocks are not compared."""
    differences, count = [], 0
    for name in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = load_file(one / name), load_file(other / name)
        count += len(ours)
        keys = sorted(ours.keys() | theirs.keys())
        differences += [f"{name}: {key}" for key in keys if not _same_bits(ours.get(key), theirs.get(key))]
    ours_state, theirs_state = (json.loads((folder / "state.json").read_text("utf-8")) for folder in (one, other))
    keys = sorted((ours_state.keys() | theirs_state.keys()) - _CLOCKS)
    differences += [f"state.json: {key}" for key in keys if ours_state.get(key) != theirs_state.get(key)]
    return count, differences


def _same_bits(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return False
    return one.dtype == other.dtype and one.shape == other.shape and one.numpy().tobytes() == other.numpy().tobytes()


def _log_lines(path: Path, first: int, last: int) -> list[dict[str, Any]]:
    """The log events of steps `first` + 1 to `last`, without clocks."""
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("}")]
    return [
        {name: value for name, value in event.items() if name not in _CLOCKS}
        for event in events
        if first < event["step"] <= last
    ]
