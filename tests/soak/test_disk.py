"""A full or broken disk at any writing call gives one line. Old checkpoints stay whole, and nothing is half written."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from dragoman.bundle import weights
from dragoman.errors import DragomanError
from dragoman.training.run.checkpoint import save_checkpoint
from dragoman.training.run.run_folder import TrainState, ValidationRecord
from dragoman.training.session import TrainingSession
from dragoman.training.step.optimizer import build_optimizer, optimizer_tensors
from dragoman.training.trainer import fit
from tests.soak.conftest import Report
from tests.soak.runs import is_whole, make_session, override_train, phrasebook_texts

PATH_METHODS = ("rename", "replace", "mkdir", "chmod", "open")
Before = Callable[[str], object]


@contextmanager
def intercepted_writes(before: Before) -> Iterator[None]:
    """Call `before` with a name before every call that changes the disk while a checkpoint is written."""

    def intercept(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            reads = name == "open" and (not arguments[1:] or arguments[1] not in ("a", "w", "wb", "ab"))
            if not reads and not (name == "rename" and not arguments[0].exists()):
                before(name)
            return original(*arguments, **options)

        return call

    def save(tensors: Any, path: Path, metadata: Any = None) -> None:
        try:
            before("safetensors")
        except OSError as error:  # as the library reports it, with half of the file written
            path.write_bytes(b"half")
            message = f"Error while serializing: I/O error: {error.strerror} (os error {error.errno})"
            raise SafetensorError(message) from None
        save_file(tensors, path, metadata)

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(os, "fsync", intercept("fsync", os.fsync)))
        patches.enter_context(mock.patch.object(weights, "save_file", save))
        for name in PATH_METHODS:
            patches.enter_context(mock.patch.object(Path, name, intercept(name, getattr(Path, name))))
        yield


def fail_at(index: int, code: int) -> Before:
    """Raise an OSError at the call of this number."""
    calls = iter(range(10**6))

    def before(_: str) -> None:
        if next(calls) == index:
            raise OSError(code, os.strerror(code))

    return before


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> TrainingSession:
    """A run of two steps that saves the second."""
    session = make_session(tmp_path_factory.mktemp("run"), phrasebook_texts(100), override_train(max_steps=2))
    fit(session)
    return session


def save(session: TrainingSession, step: int) -> None:
    entry = dict.fromkeys(("epoch", "loss", "perplexity", "learning_rate", "tokens_per_second"), 0)
    session.log.progress(entry | {"step": step}, None)
    moments = optimizer_tensors(session.transformer, build_optimizer(session.transformer, session.settings))
    state = TrainState(step=step, validations=[ValidationRecord(step, 0.0)])
    save_checkpoint(session.run, session.model, moments, state)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
@pytest.mark.parametrize("step", [3, 2], ids=["a new step", "a step written again"])
def test_a_failing_write_costs_one_checkpoint_at_most(
    session: TrainingSession, step: int, code: int, report: Report
) -> None:
    calls: list[str] = []
    with intercepted_writes(calls.append):
        save(session, step)
    shutil.rmtree(session.run.step_folder(3), ignore_errors=True)
    broken = [
        f"{name} ({index}): {outcome}"
        for index, name in enumerate(calls)
        if (outcome := outcome_of_failure(session, step, fail_at(index, code)))
    ]
    names = ", ".join(f"{calls.count(name)} {name}" for name in dict.fromkeys(calls))
    what = "a new step" if step == 3 else "a step written again"
    report(f"{errno.errorcode[code]}, {what}", len(calls), broken, names)


def outcome_of_failure(session: TrainingSession, step: int, before: Before) -> str:
    """Broken promises after a failed write; empty if there are none."""
    run, line = session.run, ""
    try:
        with intercepted_writes(before):
            save(session, step)
    except DragomanError as error:
        line = str(error)
    except OSError as error:
        return repr(error)
    run.tidy()
    whole = all(is_whole(run.step_folder(each)) for each in {2, *run.steps()})
    left = [path.name for path in run.checkpoints.parent.rglob(".writing-*")]
    shutil.rmtree(run.step_folder(3), ignore_errors=True)
    return "" if whole and line and "\n" not in line and not left else f"whole {whole}, {line!r}, left {left}"
