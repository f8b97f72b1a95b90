"""SIGKILL at any moment: a run continues bit for bit, and a checkpoint is whole or not there."""

import json
import os
import random
import shutil
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from safetensors.numpy import load_file

from dragoman.training.run.checkpoint import save_checkpoint
from dragoman.training.run.run_folder import RunFolder
from dragoman.training.trainer import fit
from dragoman.training.verification import _compare, _log_lines
from tests.soak.conftest import Report
from tests.soak.processes import exit_status, fork
from tests.soak.runs import STEPS, is_whole, make_session, override_train, phrasebook_texts

DEADLINE_SECONDS = 120


def train(run: Path, until: int = STEPS) -> Callable[[], object]:
    return lambda: fit(make_session(run, phrasebook_texts(), override_train(max_steps=until)))


def differences(run: Path, straight: Path) -> tuple[int, list[str]]:
    """The number of tensors, and the differences of two finished runs: tensors, state, and the losses of all steps."""
    tensors, found = _compare(*(RunFolder(each).step_folder(STEPS) for each in (straight, run)))
    logs = (_log_lines(each / "log.jsonl", 0, STEPS) for each in (straight, run))
    ours, theirs = ([line for line in log if line["event"] == "train"] for log in logs)
    if ours != theirs:
        found.append("log.jsonl")
    return tensors, found


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("straight")
    assert exit_status(fork(train(run))) == 0
    return run


def test_a_stopped_and_continued_run_equals_the_uninterrupted_run(
    tmp_path: Path, straight: Path, report: Report
) -> None:
    for until in (40, STEPS):
        assert exit_status(fork(train(tmp_path, until))) == 0
    tensors, found = differences(tmp_path, straight)
    # The run that stopped at step 40 validated there, in addition to the schedule.
    found = [name for name in found if not name.startswith("state")]
    report(f"{STEPS} steps = 40 + 30", 1, found[:1], f"{tensors} tensors and the loss of each step bit-equal")


def test_a_killed_and_continued_run_equals_the_uninterrupted_run(
    tmp_path: Path, straight: Path, scaled: Callable[[int], int], report: Report
) -> None:
    rng, killed, broken = random.Random(2), 0, []
    runs = [tmp_path / str(number) for number in range(scaled(15))]
    for run in runs:
        kills = kill_often(run, scaled(7), rng)
        assert exit_status(fork(train(run))) == 0
        tensors, found = differences(run, straight)
        killed += kills
        broken += [f"run {run.name}: {found[0]}"] * kills if found else []
    figures = f"{tensors} tensors and the loss of each step of every run bit-equal"
    report(f"SIGKILLs in {len(runs)} runs of {STEPS} steps", killed, broken, figures)


def kill_often(run: Path, times: int, rng: random.Random) -> int:
    """Kill and restart a run `times` times, or fewer on a slow machine. Return the number of kills."""
    deadline, killed = time.monotonic() + DEADLINE_SECONDS, 0
    while killed < times and time.monotonic() < deadline:
        child = fork(train(run))
        time.sleep(rng.uniform(0.15, 0.6))
        os.kill(child, signal.SIGKILL)
        if exit_status(child):
            killed += 1
        else:  # it finished before the kill
            shutil.rmtree(run)
            killed = 0
    return killed


MESSAGE = struct.Struct("<qd")
"""A step, negative when its checkpoint is started and positive when it is finished, and the time."""


def save_until_killed(run: Path, pipe: int) -> None:
    """Save a checkpoint after every step and write to `pipe` when one is started and finished."""
    config = override_train(max_steps=10**6, checkpoint_every_steps=1, log_every_steps=10**6)
    config = replace(config, validate=replace(config.validate, every_steps=10**6))
    session = make_session(run, phrasebook_texts(200), config)
    remove = RunFolder.remove_all_but

    def tell(sign: int) -> None:
        os.write(pipe, MESSAGE.pack(sign * session.state.step, time.monotonic()))

    def tell_and_save(*arguments: Any) -> None:
        tell(-1)
        save_checkpoint(*arguments)

    def tell_and_remove(folder: RunFolder, steps: Any) -> None:
        tell(1)
        remove(folder, steps)

    with (
        mock.patch("dragoman.training.loop.save_checkpoint", tell_and_save),
        mock.patch.object(RunFolder, "remove_all_but", tell_and_remove),
    ):
        fit(session)


def kill_while_saving(run: Path, rng: random.Random) -> int:
    """Kill a run during its second save, which takes about as long as the first; return the last saved step."""
    read, write = os.pipe()
    child = fork(lambda: save_until_killed(run, write))
    os.close(write)
    told = [MESSAGE.unpack(os.read(read, MESSAGE.size)) for _ in ("started", "finished", "started")]
    time.sleep(rng.uniform(0.0, 1.2) * (told[1][1] - told[0][1]))
    os.kill(child, signal.SIGKILL)
    exit_status(child)
    while more := os.read(read, MESSAGE.size):
        told.append(MESSAGE.unpack(more))
    os.close(read)
    return max(int(step) for step, _ in told)


def test_a_kill_while_saving_leaves_a_whole_checkpoint(
    tmp_path: Path, scaled: Callable[[int], int], report: Report
) -> None:
    rng, run = random.Random(3), RunFolder(tmp_path)
    planted, in_saving, broken, newest = scaled(200), 0, [], 0
    for number in range(planted):
        saved = kill_while_saving(tmp_path, rng)
        in_saving += any(path.name.startswith(".writing-step") for path in run.checkpoints.iterdir())
        newest = next((step for step in reversed(run.steps()) if is_whole(run.step_folder(step))), -1)
        if newest < saved or not is_of_one_step(run.step_folder(newest), newest):
            broken.append(f"kill {number}: step {newest} instead of {saved}")
    fit(make_session(tmp_path, phrasebook_texts(200), override_train(max_steps=newest + 1)))
    broken += map(str, tmp_path.rglob(".writing-*"))
    figures = f"{in_saving} in the middle of writing; nothing left over"
    report("SIGKILL while saving", planted, broken, figures)


def is_of_one_step(folder: Path, step: int) -> bool:
    moments = load_file(folder / "optimizer.safetensors")
    steps = {float(value) for name, value in moments.items() if name.endswith(":step")}
    return steps == {float(step)} and json.loads((folder / "state.json").read_text())["step"] == step
