"""Training through the Python functions: reports, signals and refused settings."""

import signal
from pathlib import Path

import pytest

from dragoman.bundle.card import read_card
from dragoman.bundle.folder import read_settings
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import CheckpointError
from dragoman.signals import Interrupted
from dragoman.training.run.log import LogDisplay
from dragoman.training.run.run_folder import RunFolder
from dragoman.workflows.progress import FinalScores, PairCounts, Progress
from dragoman.workflows.training.settings import RunRequest, resolve_run
from dragoman.workflows.training.training import train_run

SETTINGS = {
    "tokenizer.vocab_size": "280",
    "model.d_model": "16",
    "model.d_ff": "16",
    "model.num_heads": "2",
    "model.num_encoder_layers": "1",
    "model.num_decoder_layers": "1",
    "train.batch_tokens": "200",
    "train.max_steps": "4",
    "train.device": "cpu",
    "train.precision": "float32",
    "train.log_every_steps": "1",
    "inference.beam_size": "2",
    "inference.max_extra_tokens": "3",
}


class Log(LogDisplay):
    """Keeps the lines of the log, and stops training at a step."""

    def __init__(self, stop_at: int = 0) -> None:
        self.lines: list[str] = []
        self.stop_at = stop_at

    def say(self, text: str) -> None:
        if self.stop_at and text.startswith(f"step {self.stop_at:>6}"):
            signal.raise_signal(signal.SIGTERM)
        self.lines.append(text)


class Kept(Progress):
    def __init__(self, stop_at: int = 0) -> None:
        self.log: LogDisplay | None = Log(stop_at)
        self.notes: list[str] = []
        self.stages: list[str] = []
        self.parts: list[object] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stage(self, name: str, done: int, total: int | None = None, unit: str = "pairs") -> None:
        self.stages.append(name)

    def result(self, part: object) -> None:
        self.parts.append(part)


@pytest.fixture
def small_run(tmp_path: Path) -> RunRequest:
    numbers = ("one", "two", "three", "four", "five")
    rows = [f"{numbers[i % 5]} {numbers[i // 5 % 5]} apples {i}" for i in range(80)]
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("".join(f"{row}\t{row}.\n" for row in rows), encoding="utf-8")
    return RunRequest(overrides={**SETTINGS, "data.train": str(corpus)}, out=tmp_path / "run")


def test_a_run_reports_to_its_caller_and_prints_nothing(
    small_run: RunRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    progress = Kept()
    model = train_run(resolve_run(small_run, progress), progress)
    assert model is not None
    assert capfd.readouterr() == ("", "")
    counts, scores = progress.parts
    assert isinstance(counts, PairCounts)
    assert isinstance(scores, FinalScores)
    assert (counts.cleaning.read, counts.dev, counts.test) == (80, 2, None)
    assert [(part.part, part.num_sentences, part.beam_size) for part in scores.parts] == [("validation", 2, 2)]
    assert [signature for *_, signature in read_card(model).scores] == [
        each.signature for each in scores.parts[0].scores
    ]
    assert "encoding the training pairs" in progress.stages
    assert progress.notes[-1] == f"the report is {small_run.out / 'report.html'}"
    assert isinstance(progress.log, Log)
    assert "Stopped: train.max_steps = 4 reached." in progress.log.lines


def test_a_signal_raises_interrupted_after_saving_and_the_same_call_continues(small_run: RunRequest) -> None:
    with pytest.raises(Interrupted) as stop:
        train_run(resolve_run(small_run), Kept(stop_at=2))
    assert stop.value.exit_code == 128 + signal.SIGTERM
    assert sorted(path.name for path in (small_run.out / "checkpoints").iterdir()) == ["step_0000002"]
    progress = Kept()
    assert train_run(resolve_run(small_run), progress) is not None
    assert max(RunFolder(small_run.out).steps()) == 4
    assert isinstance(progress.log, Log)
    assert "Stopped: train.max_steps = 4 reached." in progress.log.lines


def test_a_frozen_setting_is_refused_before_the_corpus_is_read(small_run: RunRequest) -> None:
    assert train_run(resolve_run(small_run)) is not None
    other = RunRequest(overrides={**small_run.overrides, "model.d_model": "32"}, out=small_run.out)
    progress = Kept()
    with pytest.raises(CheckpointError, match=r"is a run with `model\.d_model` = 16, but now it is 32"):
        resolve_run(other, progress)
    assert progress.notes == []


def test_languages_found_in_the_text_are_in_the_card_and_judge_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = load_phrasebook().generate(seed=1, count=150)
    for name, texts in (("one", [pair.src for pair in pairs]), ("two", [pair.tgt for pair in pairs])):
        Path(name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        Path(f"{name}-test").write_text("".join(f"{text}\n" for text in texts[:20]), encoding="utf-8")
    overrides = {"data.train_src": "one", "data.train_tgt": "two", "data.dev_fraction": "0.3"}
    model = train_run(resolve_run(RunRequest(overrides=SETTINGS | overrides, out=tmp_path / "run")))
    assert model is not None
    card, data = read_card(model), read_settings(model).data
    assert (card.src_lang, card.tgt_lang) == ("en", "de")
    assert (data.src_lang, data.tgt_lang) == ("", "")
    assert "# Translation model, en to de" in (model / "card.md").read_text("utf-8")
    assert run_command(["evaluate", "run", "--src", "two-test", "--ref", "one-test"]) == 2
    assert "two-test looks like German (de), not like English (en)" in capsys.readouterr().err
    assert run_command(["evaluate", "run", "--src", "one-test", "--ref", "two-test"]) == 0
