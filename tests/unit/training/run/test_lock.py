"""The lock of a run: one process trains in a folder at a time, even after crashes."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from dragoman.errors import CheckpointError
from dragoman.training.run.run_folder import LOCK, lock_run


def _lock_in_another_process(run: Path) -> int:
    """Start a process that holds the lock until it is killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with lock_run(run):
                os.write(write, b"!")
                signal.pause()
        finally:
            os._exit(1)
    os.read(read, 1)
    return child


def test_a_second_process_is_refused_in_one_line_until_the_first_ends(tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = _lock_in_another_process(run)
    with pytest.raises(CheckpointError) as error, lock_run(run):
        pass
    assert str(error.value).startswith(f"{run} is being trained by another process (id {child}). ")
    assert "\n" not in str(error.value)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (run / LOCK).exists()
    with lock_run(run), pytest.raises(CheckpointError, match=f"id {os.getpid()}"), lock_run(run):
        pass
    assert not (run / LOCK).exists()


def test_other_folders_are_not_locked(tmp_path: Path) -> None:
    with lock_run(tmp_path / "one"), lock_run(tmp_path / "two"):
        pass


def test_a_lock_file_removed_before_it_is_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = fcntl.flock, []

    def flock(stream: object, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            (tmp_path / LOCK).unlink()
        original(stream, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with lock_run(tmp_path):
        assert len(calls) == 2
        assert (tmp_path / LOCK).read_text() == str(os.getpid())


def test_a_disk_without_locks_refuses_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(stream: object, how: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with lock_run(tmp_path), lock_run(tmp_path):
        pass
