"""`verify_resume` on a run: the run resumes exactly, and does not if a bug is planted on purpose.

The exact case runs whole commands. The other cases fork this process, which is faster.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import CheckpointError
from dragoman.training.run.run_folder import TrainState
from dragoman.training.step.accelerated import Randomness
from dragoman.training.verification import verify_resume
from tests.system.commands import write_tsv

SETTINGS = (
    "--model.preset=custom --model.d-model=16 --model.d-ff=16 --model.num-heads=2 --model.num-encoder-layers=1 "
    "--model.num-decoder-layers=1 --tokenizer.vocab-size=400 --train.batch-tokens=300 --train.max-steps=6 "
    "--train.threads=1 --train.average-last=0 --validate.metric=loss --validate.max-sentences=5 "
    "--train.precision=float32 --validate.beam-size=1 --inference.beam-size=1 --inference.max-extra-tokens=3"
)


class Forked:
    """A replacement of `subprocess.Popen`: a fork of this process that runs the verb."""

    def __init__(self, arguments: list[str], stdout: Any, **_: Any) -> None:
        self.status: int | None = None
        self.child = os.fork()
        if self.child == 0:
            try:
                os.dup2(stdout.fileno(), 2)
                run_command(arguments[3:])
            finally:
                os._exit(1)

    def poll(self) -> int | None:
        if self.status is None:
            ended, status = os.waitpid(self.child, os.WNOHANG)
            self.status = status if ended else None
        return self.status

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.child, signal.SIGKILL)

    def wait(self) -> None:
        if self.status is None:
            _, self.status = os.waitpid(self.child, 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    pairs = load_phrasebook().generate(seed=1, count=400)
    corpus = folder / "pairs.en-de.tsv"
    write_tsv(corpus, pairs)
    assert run_command(["train", "--data", str(corpus), "--out", str(folder / "run"), *SETTINGS.split()]) == 0
    return folder / "run"


def test_a_run_continues_bit_for_bit_and_is_not_changed(run: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    report = verify_resume(run, steps=6)
    assert report.exact, report.differences
    assert report.first_step < report.killed_after < report.last_step == report.first_step + 6
    assert report.tensors > 50
    assert report.log_lines >= 6
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before
    assert not list(run.parent.glob(".verify-*"))


def lose_position(patch: pytest.MonkeyPatch) -> None:
    original = TrainState.from_json

    def from_json(text: str) -> TrainState:
        state = original(text)
        state.step_in_epoch = 0
        return state

    patch.setattr(TrainState, "from_json", from_json)


def lose_dropout(patch: pytest.MonkeyPatch) -> None:
    original = Randomness.seed
    patch.setattr(Randomness, "seed", lambda self, *numbers: original(self, *numbers, os.getpid()))


@pytest.mark.parametrize("bug", [None, lose_position, lose_dropout])
def test_a_planted_bug_is_found(
    run: Path, monkeypatch: pytest.MonkeyPatch, bug: Callable[[pytest.MonkeyPatch], None] | None
) -> None:
    """Without a bug, the forked processes resume exactly."""
    monkeypatch.setattr("dragoman.training.verification.subprocess.Popen", Forked)
    if bug is not None:
        bug(monkeypatch)
    report = verify_resume(run, steps=6)
    assert report.exact == (bug is None), report.differences
    assert any(line.startswith("model.safetensors: ") for line in report.differences) == (bug is not None)


@pytest.mark.parametrize("while_it_starts", [False, True])
def test_temporary_files_are_removed_if_verification_is_stopped(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_it_starts: bool
) -> None:
    """Also if the signal arrives before `Popen` has returned the new process."""
    started = tmp_path / "process"

    class Started(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.write_text(f"{self.pid}\n")
            if while_it_starts:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("dragoman.training.verification.subprocess.Popen", Started)
    verifier = os.fork()
    if verifier == 0:
        code: Any = 1
        try:
            verify_resume(run, command=("sh", "-c", "exec sleep 60"))
        except SystemExit as leaving:
            code = leaving.code
        finally:
            os._exit(code)
    if not while_it_starts:
        end = time.monotonic() + 30
        while not (started.exists() and started.read_text().endswith("\n")):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert list(run.parent.glob(".verify-*"))
        os.kill(verifier, signal.SIGTERM)
    _, status = os.waitpid(verifier, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGTERM
    assert not list(run.parent.glob(".verify-*"))
    assert not Path(f"/proc/{started.read_text().strip()}").exists()


def test_runs_that_cannot_be_verified_are_errors_with_a_reason(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        verify_resume(tmp_path)
    with pytest.raises(CheckpointError, match=r"ended early\. It said last: no such data"):
        verify_resume(run, command=(sys.executable, "-c", "import sys; sys.exit('no such data')"))
