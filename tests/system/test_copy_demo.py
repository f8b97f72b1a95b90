"""`dragoman demo --copy` shows in a minute whether an installation learns."""

from pathlib import Path

import pytest

from dragoman.cli.main import run_command


def test_the_copy_task_is_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["demo", "--copy", "--out", "run", "--train.device", "cpu"]) == 0
    copied = capsys.readouterr().out.strip().split("\n")[-1]
    assert copied.startswith("exactly copied: ")
    assert int(copied.split()[2]) >= 95


def test_a_model_that_does_not_copy_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["demo", "--copy", "--out", "run", "--train.device", "cpu", "--train.max-steps", "2"]) == 2
    assert "did not learn to copy" in capsys.readouterr().err
