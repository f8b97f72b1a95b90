"""The plan's arithmetic worked out by hand, and the verb on a small corpus: it measures, says, and leaves nothing."""

import json
import math
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.cli import plan as plan_module
from dragoman.cli.main import run_command
from dragoman.cli.plan import Measurement, forecast_of
from dragoman.config import Config, TrainSettings, ValidateSettings

MEASURED = Measurement(
    prepare_seconds=100,
    step_seconds=2.0,
    steps_measured=20,
    validation_seconds=30,
    save_seconds=10,
    scoring_seconds=60,
    steps_per_epoch=50,
    parameters=1000,
    peak_bytes=1,
    checkpoint_bytes=12_000,
    data_bytes=500,
)
CONFIG = Config(train=TrainSettings(max_steps=1000, patience=0, average_last=5, keep_checkpoints=5))


def test_a_run_of_known_length_takes_its_steps_validations_checkpoints_and_what_is_around_them() -> None:
    found = forecast_of(CONFIG, MEASURED, usual_epochs=10)
    # 1,000 steps of 2 s; 20 epochs' validations and savings of 40 s; 100 s before; an average of 40 s, scores of 60 s.
    assert found.hours * 3600 == pytest.approx(1000 * 2 + 20 * 40 + 100 + 40 + 60)
    assert (found.steps, found.epochs, found.validations, found.ends_by) == (1000, 20, 20, "train.max_steps")
    assert found.hours_at_most == found.hours
    assert found.disk_bytes == 6 * 12_000 + 4 * 1000 + 500


def test_more_checkpoints_and_validations_by_steps_are_counted() -> None:
    train = replace(CONFIG.train, checkpoint_every_steps=100, average_last=0)
    config = replace(CONFIG, train=train, validate=ValidateSettings(every_epochs=0, every_steps=200))
    found = forecast_of(config, MEASURED, usual_epochs=10)
    assert found.hours * 3600 == pytest.approx(1000 * 2 + 5 * 40 + 10 * 10 + 160)


def test_the_nearest_limit_ends_it_and_patience_is_a_guess() -> None:
    minutes = replace(CONFIG, train=replace(CONFIG.train, max_minutes=14, average_last=0))
    found = forecast_of(minutes, MEASURED, usual_epochs=10)
    assert found.ends_by == "train.max_minutes"
    assert found.hours * 3600 == pytest.approx(14 * 60 + 160, rel=0.01)
    patience = replace(CONFIG, train=TrainSettings(patience=10, max_epochs=40, average_last=0))
    found = forecast_of(patience, MEASURED, usual_epochs=10)
    assert (found.ends_by, found.epochs) == ("train.patience", 10)
    assert found.hours_at_most * 3600 == pytest.approx(40 * 140 + 160)
    endless = replace(patience, train=replace(patience.train, max_epochs=0))
    assert math.isinf(forecast_of(endless, MEASURED, usual_epochs=10).hours_at_most)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """80 pairs, and a place of its own for temporary files."""
    lines = [f"the number {number} is here\tdie Zahl {number} ist hier\n" for number in range(80)]
    (tmp_path / "corpus.en-de.tsv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> list[Path]:
    """Without what torch keeps of its own among temporary files."""
    return [path for path in sorted(folder.rglob("*")) if "torchinductor" not in str(path)]


SMALL = ["--model.d-model", "16", "--model.d-ff", "16", "--model.num-heads", "2", "--tokenizer.vocab-size", "280"]
SMALL += ["--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1", "--train.device", "cpu"]


def test_it_measures_a_sample_and_leaves_nothing(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan_module, "_MOST_PAIRS", 40)
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


def test_the_table_names_what_ends_the_run_and_bad_input_is_one_line(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *SMALL, "--train.batch-tokens", "200"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("suggested size tiny, vocabulary 2,000", "patience", "memory", "disk", "an epoch"):
        assert part in shown
    assert run_command(["plan", "--data", "missing.en-de.tsv"]) == 2
    assert "missing.en-de.tsv" in capsys.readouterr().err
    assert not list((corpus / "temporary").glob("dragoman*"))


def test_a_schedule_that_ends_is_planned_and_what_training_refuses_is_refused(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linear = ["--train.schedule", "linear", "--train.max-steps", "90", "--train.warmup-steps", "26"]
    small = [*SMALL, "--train.batch-tokens", "200"]
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *small, *linear, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forecast"]["steps"] == 90
    assert run_command(["plan", "--data", "corpus.en-de.tsv", *small, "--tokenizer.vocab-size", "5000"]) == 2
    assert "`tokenizer.vocab_size` is 5000, but the text supports only" in capsys.readouterr().err


def test_nothing_stays_where_it_is_terminated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"one two {number}\teins zwei {number}" for number in range(40)]
    (tmp_path / "corpus.en-de.tsv").write_text("\n".join(rows) + "\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    there = []

    def terminated(settled: object, folder: Path) -> None:
        there.append(folder.exists())
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(plan_module, "measure", terminated)
    assert run_command(["plan", "--data", str(tmp_path / "corpus.en-de.tsv")]) == 143
    assert there == [True]
    assert not list(scratch.iterdir())
