"""Two workers of a local Ray cluster translate a file, and one of them is killed meanwhile."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import run_command
from dragoman.workflows.cluster import split_into_chunks

LINES = [("three small words " * (1 + number % 5)) + str(number) for number in range(600)]
LINES[7] = ""
LINES[11] = "no line ends here:\x85, nor here:\u2028."
MARK = "DRAGOMAN_TEST_OF_THE_CLUSTER"


def test_chunks_hold_every_line_once():
    pieces = list(split_into_chunks(iter("abcdefg"), 3))
    assert [(piece.number, piece.first_line, piece.texts) for piece in pieces] == [
        (0, 0, ("a", "b", "c")),
        (1, 3, ("d", "e", "f")),
        (2, 6, ("g",)),
    ]
    assert list(split_into_chunks(iter(""), 3)) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--cluster", "local"], "`--cluster` needs `--input` and `--output`, but `--input` is not given"),
        (["--cluster", "local", "--input", "IN"], "but `--output` is not given"),
        (
            ["--cluster", "local", "--input", "IN", "--output", "OUT", "--prefix", "IN"],
            "`--prefix` must not both be given",
        ),
        (["--cluster", "local", "--input", "IN", "--output", "no/OUT"], "`--output` is no/OUT, but no is not a folder"),
        (["--cluster", "local", "--piece-lines", "0"], "`--piece-lines` must be a whole number of at least 1, but is"),
    ],
)
def test_options_that_exclude_a_cluster_are_refused(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: Any, capsys: Any
):
    monkeypatch.chdir(tmp_path)
    Path("IN").write_text("a\n")
    assert run_command(["translate", "model", *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.fixture(scope="module")
def model(small_bundle: Any, tmp_path_factory: Any) -> Path:
    folder: Path = tmp_path_factory.mktemp("cluster") / "model"
    small_bundle.save(folder)
    return folder


@pytest.mark.slow
def test_a_killed_worker_and_a_finished_piece_change_nothing(model: Path, tmp_path: Path):
    pytest.importorskip("ray", reason="ray is not installed: pip install '.[cluster]'")
    source, alone, together = (tmp_path / name for name in ("in.txt", "alone.txt", "together.txt"))
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    _run("translate", str(model), "--input", str(source), "--output", str(alone), "--inference.beam-size", "2").wait()
    expected = alone.read_text(encoding="utf-8").split("\n")
    assert len(expected) == len(LINES) + 1

    options = ["--cluster", "local", "--worker-cpus", "1", "--piece-lines", "5", "--inference.beam-size", "2"]
    command = ["translate", str(model), "--input", str(source), "--output", str(together), *options]
    parts = together.with_name("together.txt.parts")
    first = _run(*command)
    _wait_for(lambda: len(list(parts.glob("part_*"))) >= 2, first)
    first.kill()
    first.wait()
    kept = sorted(parts.glob("part_*"))[0]
    lines = len(kept.read_text(encoding="utf-8").split("\n")) - 1
    kept.write_text("kept\n" * lines, encoding="utf-8")
    begin = int(kept.name.removeprefix("part_")) * 5
    expected[begin : begin + lines] = ["kept"] * lines

    second = _run(*command)
    done = len(list(parts.glob("part_*")))
    _wait_for(lambda: len(list(parts.glob("part_*"))) > done, second)
    assert _kill_one_worker()
    assert second.wait(timeout=200) == 0
    assert together.read_text(encoding="utf-8").split("\n") == expected
    assert not parts.exists()


def _run(*arguments: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, MARK: str(os.getpid())}
    return subprocess.Popen([sys.executable, "-m", "dragoman", *arguments], env=environment)


def _wait_for(condition: Any, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < until
        time.sleep(0.02)


def _kill_one_worker() -> bool:
    """Kill a worker of the cluster that this test started."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = f"{MARK}={os.getpid()}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if ours and (folder / "cmdline").read_bytes().startswith(b"ray::Worker"):
                os.kill(int(folder.name), signal.SIGKILL)
                return True
    return False


def test_a_cluster_that_does_not_answer_is_one_line(model: Path, tmp_path: Path, capsys: Any):
    pytest.importorskip("ray", reason="ray is not installed: pip install '.[cluster]'")
    (tmp_path / "in.txt").write_text("a\n")
    files = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out.txt")]
    assert run_command(["translate", str(model), *files, "--cluster", "127.0.0.1:9"]) == 2
    assert "`--cluster` is 127.0.0.1:9, but no Ray cluster answers there" in capsys.readouterr().err
