"""The verb `plan` on a small corpus."""

import json
import re
import signal
import tempfile
from pathlib import Path

import pytest

from dragoman.cli.main import run_command
from dragoman.workflows.training import planning


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """80 pairs, and a separate folder for temporary files."""
    lines = [f"the number {number} is here\tdie Zahl {number} ist hier\n" for number in range(80)]
    (tmp_path / "corpus.en-de.tsv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> list[Path]:
    """The temporary files, without those of torch."""
    return [path for path in sorted(folder.rglob("*")) if "torchinductor" not in str(path)]


SMALL = ["--model.d-model", "16", "--model.d-ff", "16", "--model.num-heads", "2", "--tokenizer.vocab-size", "280"]
SMALL += ["--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1", "--train.device", "cpu"]


def test_plan_measures_a_sample_and_leaves_no_files(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(planning, "_MOST_PAIRS", 40)
    before = files_in(corpus)
    flags = ["--train.batch-tokens", "100", "--train.max-steps", "30", "--json"]
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *SMALL, *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == 80
    assert found["rule"]["preset"] == "tiny"
    measured = found["measured"]
    assert measured["steps_measured"] == 20
    assert min(measured[name] for name in ("step_seconds", "validation_seconds", "save_seconds", "peak_bytes")) > 0
    assert measured["steps_per_epoch"] % 2 == 0  # of half of the pairs, twice
    assert found["forecast"]["steps"] == 30
    assert files_in(corpus) == before


def test_the_table_tells_when_a_model_of_the_recipe_is_nearly_good(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--tokenizer.vocab-size", "280", "--train.batch-tokens", "100", "--train.device", "cpu"]
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *flags]) == 0
    found = re.search(r"\nquality +about ([\d,]+) min \(([\d,]+) to ([\d,]+)\) of training", capsys.readouterr().out)
    assert found is not None
    usual, least, most = (int(number.replace(",", "")) for number in found.groups())
    assert 1 <= least <= usual <= most


def test_the_table_names_the_limit_of_the_run_and_errors_are_one_line(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *SMALL, "--train.batch-tokens", "200"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("suggested size tiny, vocabulary 2,000", "patience", "memory", "disk", "an epoch"):
        assert part in shown
    assert "BLEU" not in shown  # no curve was measured for such a small model
    assert run_command(["plan", "--data", "missing.en-de.tsv"]) == 2
    assert "missing.en-de.tsv" in capsys.readouterr().err
    assert not list((corpus / "temporary").glob("dragoman*"))


def test_plan_accepts_schedules_with_an_end_and_refuses_what_train_refuses(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linear = ["--train.schedule", "linear", "--train.max-steps", "90", "--train.warmup-steps", "26"]
    small = [*SMALL, "--train.batch-tokens", "200"]
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *small, *linear, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forecast"]["steps"] == 90
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *small, "--tokenizer.src-vocab-size", "5000"]) == 2
    assert "`--tokenizer.src-vocab-size` must be 0 if `tokenizer.joint` is true" in capsys.readouterr().err


@pytest.mark.parametrize("most_pairs", [40, 80])
def test_plan_says_how_many_entries_the_text_supports_unless_it_reads_a_sample(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most_pairs: int
) -> None:
    monkeypatch.setattr(planning, "_MOST_PAIRS", most_pairs)
    flags = ["--train.batch-tokens", "200", "--tokenizer.vocab-size", "5000"]
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *SMALL, *flags]) == 0
    said = capsys.readouterr().err
    assert ("all that the text supports; `tokenizer.vocab_size` is a maximum of 5,000" in said) == (most_pairs == 80)


def test_a_signal_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"one two {number}\teins zwei {number}" for number in range(40)]
    (tmp_path / "corpus.en-de.tsv").write_text("\n".join(rows) + "\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    there = []

    def terminated(run: object, folder: Path, progress: object) -> None:
        there.append(folder.exists())
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(planning, "measure", terminated)
    assert run_command(["plan", "--data", str(tmp_path / "corpus.en-de.tsv")]) == 143
    assert there == [True]
    assert not list(scratch.iterdir())
