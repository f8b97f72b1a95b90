"""All steps as a user runs them: train, translate, evaluate, summary, average, stop and continue."""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.evaluation.metrics import bleu, chrf
from dragoman.visualization.report.run_facts import open_stored_part
from tests.dispositions import disposition_of
from tests.system.commands import dragoman, events, write_tsv

SMALL = [
    "--model.preset", "tiny", "--model.num-encoder-layers", "2", "--model.num-decoder-layers", "2",
    "--model.d-model", "64",
    "--model.d-ff", "128", "--train.batch-tokens", "1024", "--train.device", "cpu", "--train.precision", "float32",
]  # fmt: skip


Here = Callable[..., tuple[str, str]]


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Run the command in this process and check its exit code. Returns its stdout and stderr."""

    def run(*arguments: object, stdin: str = "", code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode())))
        capfd.readouterr()
        found = run_command([*map(str, arguments)])
        said = capfd.readouterr()
        assert found == code, said.err
        return said.out, said.err

    return run


@pytest.fixture(scope="module")
def copy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on the copy task from a TSV file: random sequences of 10 over 11 symbols."""
    folder = tmp_path_factory.mktemp("copy")
    draw = random.Random(0)
    lines = [" ".join(draw.choices("abcdefghijk", k=10)) for _ in range(4700)]
    parts = {"train": lines[:4000], "dev": lines[4000:4100], "test": lines[4500:]}
    for name, part in parts.items():
        (folder / f"{name}.tsv").write_text("".join(f"{line}\t{line}\n" for line in part))
    files = [flag for name in parts for flag in (f"--data.{name}", folder / f"{name}.tsv")]
    done = dragoman(
        "train", *files, "--src-lang", "x-copy", "--tgt-lang", "x-turned", "--out", folder / "run", *SMALL,
        "--tokenizer.kind", "word", "--tokenizer.vocab-size", "15", "--train.max-steps", "700",
        "--train.learning-rate", "0.003",
        "--train.warmup-steps", "100", "--model.dropout", "0", "--validate.every-epochs", "2",
    )  # fmt: skip
    assert "step    700" in done.stderr
    assert "BLEU" in done.stdout
    assert "version:" in done.stdout
    return folder / "run"


def test_the_copy_task_is_learned(copy_run: Path) -> None:
    test = [line.split("\t")[0] for line in (copy_run.parent / "test.tsv").read_text().split("\n") if line]
    assert len(test) == 200
    done = dragoman("translate", copy_run, stdin="".join(f"{line}\n" for line in test))
    assert done.stdout.split("\n")[:-1] == test
    assert Translator.load(copy_run).translate(test, beam_size=1) == test


def test_a_run_has_all_its_files(copy_run: Path) -> None:
    names = {path.name for path in copy_run.iterdir()}
    assert {"config.toml", "log.jsonl", "best", "last", "checkpoints", "data", "report.html", "card.md"} <= names
    assert {"step", "loss", "perplexity", "learning_rate", "tokens_per_second"} <= events(copy_run)[0].keys()
    state = json.loads((copy_run / "checkpoints" / "step_0000700" / "state.json").read_text())
    assert state["step"] == 700
    assert state["sentences"] > 700 * 50
    assert state["tgt_tokens"] == state["sentences"] * 11


def test_a_finished_run_has_nothing_left_to_do_and_summary_shows_its_card(copy_run: Path, here: Here) -> None:
    _, said = here("train", "--out", copy_run)
    assert "Nothing is left to do" in said
    summary, _ = here("summary", copy_run)
    assert "(equal)" in summary
    assert "x-copy to x-turned" in summary
    assert "BLEU" in summary


def test_a_raised_limit_continues_training_and_scores_again(copy_run: Path, tmp_path: Path, here: Here) -> None:
    shutil.copytree(copy_run, tmp_path / "run")
    answer, said = here("train", "--out", tmp_path / "run", "--train.max-steps", "702")
    assert "Continuing after step 700." in said
    assert "train.max_steps = 702 reached" in said
    assert "BLEU" in answer


def test_average_makes_a_model(copy_run: Path, tmp_path: Path, here: Here) -> None:
    assert here("average", copy_run, "--last", 2, "--out", tmp_path / "mean")[0].strip() == str(tmp_path / "mean")
    assert here("translate", tmp_path / "mean", stdin="a b c d e f g h i j\n")[0] == "a b c d e f g h i j\n"
    assert "exists already" in here("average", copy_run, "--out", tmp_path / "mean", code=2)[1]


def test_evaluate_scores_the_model(copy_run: Path, tmp_path: Path, here: Here) -> None:
    test = [line.split("\t")[0] for line in (copy_run.parent / "test.tsv").read_text().split("\n") if line]
    for name in ("test.x", "test.y"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in test))
    answer, _ = here("evaluate", copy_run, "--src", tmp_path / "test.x", "--ref", tmp_path / "test.y", "--json")
    assert json.loads(answer)["scores"][0]["value"] == pytest.approx(100)


def test_a_folder_that_is_not_a_run_is_refused(copy_run: Path, tmp_path: Path, here: Here) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    languages = ("--src-lang", "x-copy", "--tgt-lang", "x-turned")
    _, said = here("train", "--data", copy_run.parent / "train.tsv", "--out", tmp_path, *languages, code=2)
    assert "holds notes.txt, and no run of dragoman" in said
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), pytest.param("SIGINT", 130, marks=pytest.mark.slow)])
def test_a_signal_saves_and_the_same_command_continues(tmp_path: Path, name: str, code: int) -> None:
    pairs = load_phrasebook().generate(seed=3, count=400)
    write_tsv(tmp_path / "corpus.en-de.tsv", pairs)
    command = [
        "train", "--data", tmp_path / "corpus.en-de.tsv", "--out", tmp_path / "run", *SMALL, "--train.max-steps", "60",
        "--train.learning-rate", "0.01",
        "--tokenizer.vocab-size", "400", "--train.log-every-steps", "5", "--validate.every-epochs", "50",
        "--inference.max-extra-tokens", "3",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", *map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"step      5"):
            break
    process.send_signal(getattr(signal, name))
    rest = process.stderr.read()
    assert process.wait(timeout=60) == code
    assert b"The same command continues." in rest
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1
    done = dragoman(*command)
    assert "Continuing after step" in done.stderr
    assert "train.max_steps = 60 reached" in done.stderr
    steps = [event["step"] for event in events(tmp_path / "run")]
    assert steps == sorted(steps)
    assert steps[-1] == 60
    assert_scores_of_training_are_those_of_the_model(tmp_path / "run")


def test_a_run_under_nohup_goes_on_after_a_hangup(tmp_path: Path) -> None:
    write_tsv(tmp_path / "corpus.en-de.tsv", load_phrasebook().generate(seed=3, count=120))
    command = [
        "train", "--data", tmp_path / "corpus.en-de.tsv", "--out", tmp_path / "run", *SMALL, "--train.max-steps", "6",
        "--tokenizer.vocab-size", "300", "--train.log-every-steps", "1", "--inference.max-extra-tokens", "3",
    ]  # fmt: skip
    with disposition_of(signal.SIGHUP, signal.SIG_IGN):  # what nohup does
        process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", *map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"step      1"):
            process.send_signal(signal.SIGHUP)
            break
    rest = process.stderr.read()
    assert process.wait(timeout=60) == 0, rest
    assert b"train.max_steps = 6 reached" in rest


def assert_scores_of_training_are_those_of_the_model(run: Path) -> None:
    """Compare the scores of the last validation with those of the model (greedy search, as in `validate.beam_size`)."""
    sources, references = open_stored_part(run, "dev").texts()
    model = run / (run / "last").read_text().strip()
    outputs = Translator.load(model, "cpu").translate(sources, beam_size=1)
    logged = [event for event in events(run) if event["event"] == "validation"][-1]
    assert (logged["bleu"], logged["chrf"]) == (bleu(outputs, references).value, chrf(outputs, references).value)
    assert 0 < logged["chrf"] < 100
