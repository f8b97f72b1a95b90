"""Errors that users make: one clear line, exit code 2, and no incomplete files."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli.main import run_command
from tests.system.commands import dragoman

GOOD = "".join(f"word{n % 7} and word{n}\tWort{n % 7} und Wort{n}\n" for n in range(60))


Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def train(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the verb in this process."""

    def run(*arguments: object) -> Done:
        code = run_command(["train", *map(str, arguments)])
        return Done("train", code, *capfd.readouterr())

    return run


def refused(done: Done, *words: str) -> None:
    """Check for exit code 2 and for all words in the last line."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.rstrip("\n").split("\n")[-1]
    assert last.startswith("dragoman: ")
    for word in words:
        assert word in last, last
    assert done.stdout == ""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "good.en-de.tsv").write_text(GOOD)
    return tmp_path / "good.en-de.tsv"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.en-de.tsv", None, ["missing.en-de.tsv", "does not exist"]),
        ("empty.en-de.tsv", b"", ["empty.en-de.tsv", "empty"]),
        ("bytes.en-de.tsv", b"a\tb\nc\xff\tb\n", ["bytes.en-de.tsv", "line 2", "UTF-8"]),
        ("columns.en-de.tsv", b"a\tb\nc\n", ["columns.en-de.tsv", "line 2", "tab"]),
        ("half.en-de.tsv.gz", b"\x1f\x8b\x08\x00\x00", ["half.en-de.tsv.gz"]),
        ("bad.en-de.jsonl", b'{"translation": {"en": "a", "de": "b"}}\n{', ["bad.en-de.jsonl", "line 2"]),
        ("one.en-de.tsv", b"a\tb\n", ["different source sentences"]),
        ("same.en-de.tsv", b"a\tb\n" * 50, ["same.en-de.tsv", "every source is the same line"]),
        ("huge.en-de.tsv", GOOD.encode() + b"a " * 500_000 + b"\tb\n", ["huge.en-de.tsv", "1,000,000", "first: 61"]),
    ],
)
def test_bad_corpora(train: Run, tmp_path: Path, name: str, content: bytes | None, words: list[str]) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(train("--data", tmp_path / name, "--out", tmp_path / "run", "--train.max-steps", 1), *words)
    assert not list(tmp_path.rglob("checkpoints"))


def test_a_directory_instead_of_a_file(train: Run, tmp_path: Path) -> None:
    (tmp_path / "d.en-de.tsv").mkdir()
    refused(train("--data", tmp_path / "d.en-de.tsv", "--out", tmp_path / "run"), "d.en-de.tsv", "director")


def test_different_line_counts(train: Run, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one 1\ntwo 2\nthree 3\n")
    (tmp_path / "a.de").write_text("eins 1\ndrei 3\n")
    done = train("--src", tmp_path / "a.en", "--tgt", tmp_path / "a.de", "--out", tmp_path / "run")
    refused(done, "3", "2", "a.en", "a.de", "line")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--train.max-stepps", "3"], ["--train.max-stepps", "--train.max-steps"]),
        (["--train.max-steps", "many"], ["train.max-steps", "many"]),
        (["--model.dropout", "1.5"], ["model.dropout", "1.5"]),
        (["--model.d-model", "30", "--model.num-heads", "4"], ["model.d", "30", "4"]),
        (
            ["--tokenizer.src-vocab-size", "900", "--model.tie", "decoder"],
            ["`--tokenizer.src-vocab-size` must be 0 if `tokenizer.joint` is true", "but is 900"],
        ),
        (
            ["--tokenizer.tgt-vocab-size", "20", "--tokenizer.joint", "false", "--train.max-steps", "1"],
            ["`tokenizer.tgt_vocab_size` must be at least 260 for this kind", "but is 20"],
        ),
        (["--train.device", "warp"], ["train.device", "warp"]),
        (["--train.batch-tokens", "3", "--train.max-steps", "1"], ["train.batch_tokens", "3"]),
        (["--teacher", "a"], ["`--teacher` was removed", "Train on what the teacher writes instead"]),
        (["--train.teacher-weight", "0.5"], ["`--train.teacher-weight` was removed", "Train on what the teacher"]),
    ],
)
def test_bad_settings(train: Run, good: Path, tmp_path: Path, flags: list[str], words: list[str]) -> None:
    refused(train("--data", good, "--out", tmp_path / "run", *flags), *words)
    assert not list(tmp_path.rglob("checkpoints"))


def test_one_side_without_the_other(train: Run, good: Path) -> None:
    refused(train("--src", good), "`--src`", "`--tgt` is not")


def test_a_file_at_the_path_of_the_run(train: Run, good: Path) -> None:
    refused(train("--data", good, "--out", good), "is a file, but a run is a folder")
    refused(train("--data", good, "--out", f"{good}/run"), f"{good} is a file, but a run is a folder")
    assert good.read_text() == GOOD


def test_bad_settings_in_a_file_name_the_file(train: Run, good: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[train]\nwarmup_stepps = 3\n")
    done = train(tmp_path / "c.toml", "--data", good)
    refused(done, "c.toml", "train.warmup_stepps", "train.warmup_steps")
    (tmp_path / "c.toml").write_text('[train]\nteachers = "one,two"\nteacher_weight = 0.7\n')
    refused(train(tmp_path / "c.toml", "--data", good), "`train.teachers` in", '"one,two"', "was removed", "translate")


def test_no_model(tmp_path: Path) -> None:
    refused(dragoman("translate", tmp_path / "nothing", stdin="a\n", code=2), "nothing", "does not exist")


def test_a_bad_corpus_in_a_separate_process(tmp_path: Path) -> None:
    (tmp_path / "columns.en-de.tsv").write_bytes(b"a\tb\nc\n")
    done = dragoman("train", "--data", tmp_path / "columns.en-de.tsv", "--out", tmp_path / "run", code=2)
    refused(done, "columns.en-de.tsv", "line 2", "tab")
    assert done.stderr.count("\n") == 2


def test_an_unset_environment_variable_is_named(train: Run, tmp_path: Path) -> None:
    done = train("--src", "$NO_SUCH_VARIABLE/a.en", "--tgt", tmp_path / "a.de", "--out", tmp_path / "run")
    refused(done, "NO_SUCH_VARIABLE", "not set")
