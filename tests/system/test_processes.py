"""One run in several processes, as torchrun starts them: the same steps as in one process, and nothing is lost.

torchrun itself starts the run that continues after a kill. The other runs fork this process and set the environment
variables of torchrun, which is faster.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file

from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from tests.system.commands import events, write_tsv

SHAPE = {"d-model": 16, "d-ff": 32, "num-heads": 2, "num-encoder-layers": 1, "num-decoder-layers": 1, "dropout": 0}
SETTINGS = {
    **{f"model.{name}": value for name, value in {"preset": "custom", **SHAPE}.items()},
    "tokenizer.vocab-size": 450,
    "train.batch-tokens": 1024,
    "train.precision": "float32",
    "train.threads": 1,
    "train.optimizer": "adam",  # Muon makes differences of rounding larger
    "train.learning-rate": 0.01,
    "train.warmup-steps": 20,
    "train.log-every-steps": 1,
    "train.checkpoint-every-steps": 5,
    "train.average-last": 0,
    "validate.every-steps": 15,
    "validate.every-epochs": 0,
    "validate.max-sentences": 5,
}
STEPS = 20


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("processes") / "phrases.tsv"
    pairs = load_phrasebook().generate(seed=5, count=700)
    write_tsv(path, pairs)
    torch.optim.AdamW([torch.zeros(1)])  # import its modules once, before processes are forked
    return path


def arguments(corpus: Path, out: Path, steps: int, settings: dict[str, Any]) -> list[str]:
    given = {**SETTINGS, "train.max-steps": steps, **settings}
    flags = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    data = [str(corpus)] if corpus.suffix == ".toml" else ["--data", str(corpus)]
    return ["train", *data, "--src-lang", "en", "--tgt-lang", "de", "--out", str(out), *flags]


def torchrun(corpus: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "dragoman"]
    command += arguments(corpus, out, STEPS, {})
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def free_port() -> int:
    """A port that no other test gets: those that ask the system for a free one get ports above 32,767."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def start(corpus: Path, out: Path, processes: int, steps: int = STEPS, **settings: Any) -> list[int]:
    """Start the processes of a run."""
    port = free_port()
    said = corpus.parent / "said"
    said.write_text("")
    children = []
    for rank in range(processes):
        if not (child := os.fork()):
            code = 1
            try:
                place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_PORT": port}
                os.environ |= {name: str(value) for name, value in place.items()} | {"MASTER_ADDR": "127.0.0.1"}
                stream = os.open(said, os.O_WRONLY | os.O_APPEND)
                os.dup2(stream, 1)
                os.dup2(stream, 2)
                mock.patch("dragoman.workflows.training.scoring.write_report").start()
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                code = run_command(arguments(corpus, out, steps, settings))
                sys.stderr.flush()
            finally:
                os._exit(code)
        children.append(child)
    return children


def ended(corpus: Path, children: list[int]) -> tuple[list[int], str]:
    """Return the exit codes of the processes and their output."""
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return codes, (corpus.parent / "said").read_text()


def trained(corpus: Path, out: Path, processes: int, steps: int = STEPS, **settings: Any) -> Path:
    codes, said = ended(corpus, start(corpus, out, processes, steps, **settings))
    assert not any(codes), said
    return out


def losses(run: Path) -> dict[int, float]:
    logged = [event for event in events(run) if event["event"] == "train"]
    steps = [event["step"] for event in logged]
    assert steps == sorted(set(steps)), "each step is logged once"
    return {event["step"]: event["loss"] for event in logged}


def farthest(one: Path, other: Path) -> float:
    ours, theirs = losses(one), losses(other)
    assert ours.keys() == theirs.keys()
    return max(abs(ours[step] - theirs[step]) for step in ours)


@pytest.fixture(scope="module")
def alone(corpus: Path) -> Path:
    return trained(corpus, corpus.parent / "alone", 1)


@pytest.fixture(scope="module")
def two(corpus: Path) -> Path:
    return trained(corpus, corpus.parent / "two", 2)


def test_two_processes_take_the_steps_of_one(alone: Path, two: Path):
    assert len(losses(two)) == STEPS
    assert farthest(alone, two) < 1e-5
    assert losses(alone)[1] - losses(alone)[STEPS] > 0.3, "it learns, so that equal losses say something"


def test_two_processes_take_the_steps_of_one_with_muon(corpus: Path):
    one, two = (
        trained(corpus, corpus.parent / f"muon {count}", count, STEPS, **{"train.optimizer": "muon"})
        for count in (1, 2)
    )
    assert farthest(one, two) < 1e-4


def test_two_processes_mix_several_corpora_as_one_does(corpus: Path):
    lines = list(dict.fromkeys(corpus.read_text().splitlines(keepends=True)))
    (corpus.parent / "a.tsv").write_text("".join(lines[:150]))
    (corpus.parent / "b.tsv").write_text("".join(lines[150:]))
    a, b = (f'[[corpora]]\ndata = "{corpus.parent}/{name}.tsv"\n' for name in "ab")
    several = corpus.parent / "several.toml"
    several.write_text(f'{a}weight = 3\ntag = "legal"\n{b}until = 0.6\nsynthetic = "src"\n')
    one, two = (trained(several, corpus.parent / f"several {count}", count) for count in (1, 2))
    assert farthest(one, two) < 1e-5


def test_a_sharded_model_takes_the_same_steps_and_continues_in_one_process(corpus: Path, alone: Path):
    spread = trained(corpus, corpus.parent / "spread", 2, STEPS - 10, **{"train.sharding": "full"})
    trained(corpus, spread, 1)
    assert farthest(alone, spread) < 1e-5


def wait_for_checkpoint(run: Path) -> None:
    until = time.monotonic() + 100
    while not any((run / "checkpoints").glob("step_*[05]")):
        assert time.monotonic() < until, (run.parent / "said").read_text()
        time.sleep(0.01)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"step_{STEPS:07d}" / "model.safetensors")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stop_signal_to_one_process_saves_and_ends_all(corpus: Path, two: Path, rank: int):
    stopped = corpus.parent / f"stopped {rank}"
    children = start(corpus, stopped, 2)
    wait_for_checkpoint(stopped)
    os.kill(children[rank], signal.SIGTERM)
    codes, said = ended(corpus, children)
    assert codes == [128 + signal.SIGTERM] * 2, said
    assert said.count("The same command continues.") == 1
    trained(corpus, stopped, 2)
    one, other = weights(two), weights(stopped)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert losses(two) == losses(stopped)


def test_a_killed_process_ends_the_run_which_then_continues_exactly(corpus: Path, two: Path):
    killed = corpus.parent / "killed"
    children = start(corpus, killed, 2)
    wait_for_checkpoint(killed)
    os.kill(children[1], signal.SIGKILL)
    began = time.monotonic()
    codes, said = ended(corpus, children)
    assert time.monotonic() - began < 30
    assert codes == [2, -signal.SIGKILL]
    assert said.count("dragoman: Another process of this run has ended") == 1
    process = torchrun(corpus, killed)
    _, said = process.communicate(timeout=250)
    assert process.returncode == 0, said
    assert not list(killed.rglob(".writing-*"))
    one, other = weights(two), weights(killed)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert losses(two) == losses(killed)


def test_the_first_process_reports_an_error_once(tmp_path: Path):
    broken = tmp_path / "broken.tsv"
    broken.write_text("only one side\n")
    codes, said = ended(broken, start(broken, tmp_path / "run", 2))
    assert all(codes)
    assert said.count(f"dragoman: {broken}, line 1 has no tab") == 1
    assert not (tmp_path / "run" / "checkpoints").exists()
