"""A run continues with its own tokenizer on the same pairs. A run that never started may get other settings."""

import json
import shutil
import signal
import tomllib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomli_w

from dragoman.bundle import Model, resolve_model_folder
from dragoman.cli.main import run_command
from dragoman.config import Config, dump_config
from dragoman.config.names import RENAMED
from dragoman.text.corpus.corpus import Corpus
from dragoman.training.loop import Loop
from dragoman.training.run.frozen_settings import frozen_config
from dragoman.training.run.log import RunLog
from dragoman.training.run.run_folder import TrainState
from dragoman.training.session import TrainingSession
from dragoman.workflows.progress import TerminalProgress
from dragoman.workflows.training import training
from dragoman.workflows.training.settings import RunRequest, resolve_run

FLAGS = {
    "--tokenizer.vocab-size": "280",
    "--model.d-model": "16",
    "--model.d-ff": "16",
    "--model.num-heads": "2",
    "--model.num-encoder-layers": "1",
    "--model.num-decoder-layers": "1",
    "--train.batch-tokens": "200",
    "--train.max-steps": "2",
    "--train.device": "cpu",
    "--train.precision": "float32",
    "--inference.beam-size": "2",
    "--inference.max-extra-tokens": "3",
}


def write_pairs(path: Path, words: str, count: int = 80) -> Path:
    numbers = ("one", "two", "three", "four", "five")
    rows = [f"{numbers[i % 5]} {numbers[i // 5 % 5]} {words} {i}" for i in range(count)]
    path.write_text("".join(f"{row}\t{row}.\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "corpus.tsv", "apples")


def train(corpus: Path, changes: Mapping[str, str] = {}) -> int:
    flags = FLAGS | changes
    given = [word for pair in flags.items() for word in pair]
    return run_command(["train", "--data", str(corpus), "--out", str(corpus.parent / "run"), *given])


def test_a_run_continues_from_any_folder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model does not contain the folder of its training text."""
    monkeypatch.chdir(tmp_path)
    assert train(Path(corpus.name)) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run_command(["train", "--out", "../run", "--train.max-steps", "3"]) == 0
    assert "Continuing after step 2." in capsys.readouterr().err
    assert run_command(["train", "--out", "../run", "--train.max-steps", "3"]) == 0
    assert "Nothing is left to do" in capsys.readouterr().err
    models = [*(tmp_path / "run").glob("checkpoints/*/config.toml"), tmp_path / "run" / "report.html"]
    assert len(models) > 2
    assert all(str(tmp_path) not in path.read_text() for path in models)
    assert all(f'train = "{corpus.name}"' in path.read_text() for path in models[:-1])
    corpus.rename(tmp_path / "moved.tsv")
    assert run_command(["train", "--out", "../run", "--train.max-steps", "4"]) == 2
    said = capsys.readouterr().err
    assert f"{corpus}, which ../run/config.toml records as `data.train`, does not exist." in said
    assert "name the file that it is now: `--data FILE`." in said
    assert run_command(["train", "--out", "../run", "--train.max-steps", "4", "--data", "../moved.tsv"]) == 0


def test_a_run_that_continues_reads_no_pair(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores contain the pairs. The files are only hashed, to check that they have not changed."""
    assert train(corpus) == 0
    monkeypatch.setattr(Corpus, "pairs", lambda *_: pytest.fail("the corpus was read"))
    assert train(corpus, {"--train.max-steps": "3"}) == 0


@pytest.mark.parametrize(("flags", "warmup"), [({}, 7), ({"--train.warmup-steps": "30"}, 30)])
def test_the_warmup_fits_the_steps_unless_it_is_set(
    corpus: Path, flags: dict[str, str], warmup: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {f"--{key}": value for key, value in (("validate.every-epochs", "100"), ("train.max-steps", "40"))}
    assert train(corpus, given | flags) == 0
    assert frozen_config(corpus.parent / "run").train.warmup_steps == warmup  # type: ignore[union-attr]
    assert ("the warm-up is 7 of 40 steps (`train.warmup_steps`)" in capsys.readouterr().err) == (not flags)


def fitted(run: Path) -> tuple[int, int, int]:
    """The warm-up, and the epochs and steps between validations."""
    config = frozen_config(run)
    assert config is not None
    return config.train.warmup_steps, config.validate.every_epochs, config.validate.every_steps


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    """The events of a kind in the log of a run."""
    return [each for line in (run / "log.jsonl").open() if (each := json.loads(line))["event"] == kind]


SHORT = {"--train.max-steps": "12", "--train.batch-tokens": "24", "--validate.max-sentences": "2"}
LONG = SHORT | {"--train.max-steps": "60"}


def test_a_longer_limit_fits_the_warmup_and_the_validations_again(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = corpus.parent / "run"
    assert train(corpus, SHORT) == 0
    assert fitted(run) == (1, 0, 10)
    assert train(corpus, SHORT | {"--train.max-minutes": "900"}) == 0, "the nearest limit stays the same"
    assert fitted(run) == (1, 0, 10)
    capsys.readouterr()
    assert train(corpus, LONG) == 0
    said = capsys.readouterr().err
    longer = "`train.max_steps` = 60: the warm-up is 7 steps instead of 1 from step 7 on"
    assert "goes back to step 6, before the learning rate fell" in said
    assert said.count(f"{longer} (`train.warmup_steps`).") == 1
    assert fitted(run) == (7, 0, 12)
    before = {"train.warmup_steps": 1, "validate.every_epochs": 0, "validate.every_steps": 10}
    now = {"train.warmup_steps": 7, "validate.every_epochs": 0, "validate.every_steps": 12}
    assert events(run, "settings") == [{"event": "settings", "step": 7, "before": before, "now": now}]
    newest = max((run / "checkpoints").iterdir())
    assert json.loads((newest / "state.json").read_text())["refits"] == [{"step": 7, **before}]
    assert [event["step"] for event in events(run, "validation")] == [12, 24, 36, 48, 60]
    assert train(corpus, SHORT | {"--train.max-steps": "0", "--train.max-epochs": "1"}) == 0
    assert fitted(run) == (7, 0, 12), "a lower limit changes nothing"


def test_a_longer_time_limit_fits_the_warmup_by_the_median_pace_of_the_run(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step takes a second. One that takes a minute does not change the forecast."""
    run, clock = corpus.parent / "run", iter(range(10**6))
    monkeypatch.setattr("dragoman.training.loop.time.perf_counter", lambda: float(next(clock)))
    minutes = SHORT | {"--train.max-steps": "0", "--validate.every-epochs": "100", "--train.max-minutes": "0.5"}
    assert train(corpus, minutes) == 0
    assert fitted(run)[0] == 3, "at most a fifth of three quarters of 30 steps"
    save, slow = Loop.optimize, iter([60])
    monkeypatch.setattr(Loop, "optimize", lambda *given: (save(*given), [next(clock) for _ in range(next(slow, 0))])[0])
    assert train(corpus, minutes | {"--train.max-minutes": "1.5"}) == 0
    assert fitted(run)[0] == 7
    assert train(corpus, minutes | {"--train.max-minutes": "4"}) == 0
    assert fitted(run)[0] == 15, "with the mean pace, 7"


def test_a_warmup_that_is_set_stays_with_a_longer_limit(corpus: Path) -> None:
    assert train(corpus, SHORT | {"--train.warmup-steps": "2"}) == 0
    assert train(corpus, LONG) == 0, "without the flag"
    assert fitted(corpus.parent / "run")[0] == 2


def test_the_rate_of_noam_keeps_its_peak_with_a_longer_limit(corpus: Path) -> None:
    noam = SHORT | {"--train.schedule": "noam"}
    assert train(corpus, noam) == 0
    assert train(corpus, noam | {"--train.max-steps": "60"}) == 0
    config = frozen_config(corpus.parent / "run")
    assert config is not None
    assert config.train.warmup_steps == 7
    assert config.train.learning_rate == pytest.approx((7 / 500) ** 0.5), "1 at the 500 steps of the recipe"
    rates = [event["learning_rate"] for event in events(corpus.parent / "run", "train")]
    assert max(rates) <= 16**-0.5 * 500**-0.5 + 1e-9


@pytest.mark.parametrize("killed_after", [13, pytest.param(30, marks=pytest.mark.slow)])
def test_a_kill_after_the_warmup_was_fitted_again_changes_nothing(
    corpus: Path, killed_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the next checkpoint, when the configuration of the run is ahead of the newest checkpoint."""
    often = {"--train.log-every-steps": "1", "--train.average-last": "0"}
    run, other = corpus.parent / "run", corpus.parent / "straight"
    assert train(corpus, SHORT | often) == 0
    shutil.copytree(run, other)
    more = [word for pair in (FLAGS | LONG | often).items() for word in pair]
    assert run_command(["train", "--data", str(corpus), "--out", str(other), *more]) == 0
    optimize = Loop.optimize

    def kill(loop: Loop, *given: Any) -> None:
        optimize(loop, *given)
        if loop.state.step == killed_after:
            raise KeyboardInterrupt  # without a checkpoint

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "optimize", kill)
        assert train(corpus, LONG | often) == 130
    assert train(corpus, LONG | often) == 0
    assert events(run, "settings") == events(other, "settings") != []
    weights, states = zip(*(_weights_and_state(folder) for folder in (run, other)), strict=True)
    assert weights[0] == weights[1]
    assert states[0] == states[1]


def _weights_and_state(run: Path) -> tuple[bytes, TrainState]:
    newest = max((run / "checkpoints").iterdir())
    state = TrainState.from_json((newest / "state.json").read_text(encoding="utf-8"))
    return (newest / "model.safetensors").read_bytes(), replace(state, seconds=0.0, window_seconds=0.0)


def test_a_short_run_validates_within_its_limit_unless_you_set_how_often(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, limit = corpus.parent / "run", SHORT | {"--train.max-steps": "55"}
    assert train(corpus, limit) == 0
    assert [event["step"] for event in events(run, "validation")] == [11, 22, 33, 44, 55]
    said = capsys.readouterr().err
    assert "before its first validation" not in said
    assert "validations come every 11 steps instead of once per epoch (`validate.every_steps`)." in said
    shutil.rmtree(run)
    assert train(corpus, limit | {"--validate.every-epochs": "1"}) == 0
    assert [event["step"] for event in events(run, "validation")] == [39, 55]


def test_advice_after_a_run_that_was_too_short_is_to_train_longer(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output is the same for every source, but the corpus is not to blame."""
    dev = write_pairs(corpus.parent / "dev.tsv", "pears", 120)
    assert train(corpus, SHORT | {"--data.dev": str(dev), "--validate.max-sentences": "20"}) == 0
    answer = capsys.readouterr()
    assert "line n" not in answer.out + answer.err
    assert "It has barely trained: raise `train.max_steps` and repeat the command." in answer.out
    assert "`--train.max-steps 2500` allows enough steps." in answer.out


def test_a_long_stage_reports_counts_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 5.0, 19.0, 21.0, 21.0, 30.0])
    monkeypatch.setattr("dragoman.workflows.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    progress = TerminalProgress()
    for pairs in (0, 10_000, 20_000, 30_000, 40_000):
        progress.stage("encoding", pairs)
    said = capsys.readouterr().err.split("\n")
    assert said == ["dragoman: encoding", "dragoman: encoding: 30,000 pairs", ""]


def test_other_pairs_are_refused_with_the_file_and_nothing_is_lost(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(corpus) == 0
    run, before = corpus.parent / "run", corpus.read_text()
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    corpus.write_text(before.replace("three", "thirty"))
    assert train(corpus, {"--train.max-steps": "3"}) == 2
    said = capsys.readouterr().err.strip().split("\n")[-1]
    assert f"{corpus} has changed since this run started" in said
    for path in (path for path in kept if path.name != ".lock"):
        assert path.read_bytes() == kept[path], path
    corpus.write_text(before)
    assert train(corpus, {"--train.max-steps": "3"}) == 0
    assert Model.load(resolve_model_folder(run), "cpu").card.steps == 3


@pytest.mark.parametrize("damaged", ["{", "[]", '{"key": 3, "test": null, "files": {}}', '{"key": "x", "files": {}}'])
def test_a_damaged_record_of_the_files_is_refused_in_one_line(
    corpus: Path, damaged: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(corpus) == 0
    record = corpus.parent / "run" / "data" / "corpus.json"
    record.write_text(damaged)
    assert train(corpus, {"--train.max-steps": "3"}) == 2
    said = capsys.readouterr().err.strip().split("\n")[-1]
    assert f"{record} is damaged" in said
    assert "delete it" in said
    record.unlink()
    assert train(corpus, {"--train.max-steps": "3"}) == 0


def test_a_test_set_added_later_is_scored_and_changes_no_id(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With this test set from the start, its pairs would be left out of training, and the merges would differ."""
    assert train(corpus) == 0
    stores = {part: (tmp_path / "run" / "data" / part / "manifest.json").read_bytes() for part in ("train", "dev")}
    before = Model.load(resolve_model_folder(tmp_path / "run"), "cpu").tokenizers
    test = tmp_path / "test.tsv"
    test.write_text("".join(corpus.read_text().splitlines(keepends=True)[::2]))
    capsys.readouterr()
    assert train(corpus, {"--data.test": str(test)}) == 0
    answer = capsys.readouterr()
    assert "test (40 sentences, beam 2): BLEU" in answer.out
    assert "`data.test` was set or changed after training started" in answer.err
    assert "Nothing is left to do" not in answer.err
    assert train(corpus, {"--data.test": str(test)}) == 0
    assert "Nothing is left to do" in capsys.readouterr().err
    assert train(corpus, {"--data.test": str(test), "--train.max-steps": "3"}) == 0
    after = Model.load(resolve_model_folder(tmp_path / "run"), "cpu")
    assert after.card.steps == 3
    for part, manifest in stores.items():
        assert (tmp_path / "run" / "data" / part / "manifest.json").read_bytes() == manifest
    test.write_text("".join(corpus.read_text().splitlines(keepends=True)[::4]))
    capsys.readouterr()
    assert train(corpus, {"--data.test": str(test), "--train.max-steps": "3"}) == 0
    assert "`data.test` was set or changed after" in capsys.readouterr().err, "the same name, another test"
    assert after.tokenizers.src.library.to_str() == before.src.library.to_str()


def test_lost_pairs_are_prepared_again_exactly_as_before(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first test was left out of the training pairs. Without it the pairs would differ, and contain the test."""
    lines = corpus.read_text().splitlines(keepends=True)
    tests = [tmp_path / "first.tsv", tmp_path / "second.tsv"]
    for path, part in zip(tests, (lines[:20], lines[20:25]), strict=True):
        path.write_text("".join(part))
    assert train(corpus, {"--data.test": str(tests[0])}) == 0
    store = tmp_path / "run" / "data" / "train"
    kept = {path.name: path.read_bytes() for path in store.iterdir()}
    shutil.rmtree(store)
    for other in (str(tests[1]), ""):
        assert train(corpus, {"--data.test": other, "--train.max-steps": "3"}) == 2
        assert "the test set that was kept out of training is not the one named now" in capsys.readouterr().err
    assert train(corpus, {"--data.test": str(tests[0]), "--train.max-steps": "3"}) == 0
    assert {path.name: path.read_bytes() for path in store.iterdir()} == kept


def test_a_run_that_never_started_accepts_other_settings(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(corpus, {"--tokenizer.vocab-size": "20"}) == 2
    assert "`tokenizer.vocab_size`" in capsys.readouterr().err
    assert train(corpus) == 0
    assert train(corpus, {"--model.d-model": "32"}) == 2, "now it has started"
    assert "`model.d_model` = 16, but now it is 32" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        {"train.patience": "0"},
        {"tokenizer.joint": "false"},
        {"tokenizer.joint": "false", "model.preset": "base"},
        {"train.schedule": "cosine", "train.max_steps": "1500"},
    ],
)
def test_settings_that_fit_the_recipe_are_not_refused_because_of_defaults(corpus: Path, flags: dict[str, str]) -> None:
    config = resolve_run(RunRequest(overrides=flags | {"data.train": str(corpus)})).config
    for key, value in flags.items():
        table, _, name = key.partition(".")
        assert str(getattr(getattr(config, table), name)).lower() == value


def test_a_model_and_a_folder_with_other_files_are_refused_and_unchanged(
    corpus: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in model_folder.iterdir()}
    assert run_command(["train", "--data", str(corpus), "--out", str(model_folder)]) == 2
    assert f"{model_folder} holds " in capsys.readouterr().err
    assert {path: path.read_bytes() for path in model_folder.iterdir()} == before
    (corpus.parent / "run").mkdir()
    (corpus.parent / "run" / "config.toml").write_text('[project]\nname = "mine"\n')
    assert train(corpus) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_an_average_that_is_switched_off_is_removed(corpus: Path) -> None:
    often = {"--validate.every-steps": "1", "--train.max-steps": "4", "--train.learning-rate": "0.01"}
    assert train(corpus, often) == 0
    averaged = corpus.parent / "run" / "averaged"
    if not averaged.exists():
        assert run_command(["average", str(corpus.parent / "run"), "--out", str(averaged)]) == 0
    assert train(corpus, often | {"--train.average-last": "0"}) == 0
    assert not averaged.exists()


@pytest.mark.parametrize(
    ("limit", "epochs"), [({}, 200), ({"train.max_steps": "900"}, 0), ({"train.max_minutes": "9"}, 0)]
)
def test_a_limit_that_is_set_replaces_the_limit_of_the_recipe(corpus: Path, limit: dict[str, str], epochs: int) -> None:
    assert resolve_run(RunRequest(overrides=limit | {"data.train": str(corpus)})).config.train.max_epochs == epochs


def test_settings_that_fit_no_recipe_are_refused_before_the_corpus_is_read(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {"--train.schedule": "cosine", "--train.max-steps": "100", "--train.warmup-steps": "100"}
    assert train(corpus, late) == 2
    said = capsys.readouterr().err
    assert "`--train.warmup-steps` must be less than" in said
    assert "reading" not in said


def test_pairs_beyond_learned_positions_are_left_out_and_counted(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = {"--model.positions": "learned", "--model.max-positions": "14", "--data.max-tokens": "13"}
    dev = write_pairs(tmp_path / "dev.tsv", "pears", 5)
    with dev.open("a") as file:
        file.write(f"{'one ' * 60}\t{'one ' * 60}\n")
    assert train(corpus, learned | {"--data.dev": str(dev), "--tokenizer.bpe-dropout": "0.9"}) == 0
    assert (
        "1 of 6 validation pairs are longer than `data.max_tokens` (13), so their loss is not counted."
        in capsys.readouterr().err
    )
    dev.write_text(f"{'one ' * 60}\t{'one ' * 60}\n" * 2)
    again = {"--data.dev": str(dev), "--train.seed": "2"}
    (tmp_path / "run").rename(tmp_path / "first")
    assert train(corpus, learned | again) == 2
    assert "every validation pair is longer than `data.max_tokens`, which is 13." in capsys.readouterr().err


OFTEN = {"--validate.every-steps": "1", "--train.max-steps": "4", "--train.learning-rate": "0.01"}


@pytest.mark.parametrize("where", ["average", "score"])
def test_the_same_command_averages_and_scores_after_a_stop(
    corpus: Path, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The average of an earlier call must not stay the model of the run."""
    run, more = corpus.parent / "run", OFTEN | {"--train.max-steps": "8"}
    assert train(corpus, OFTEN) == 0
    if not (run / "averaged").exists():
        assert run_command(["average", str(run), "--out", str(run / "averaged")]) == 0

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        name = "choose_mean" if where == "average" else "score_run"
        patch.setattr(training, name, stop)
        assert train(corpus, more) == 130
    assert where == "score" or not (run / "averaged").exists()
    capsys.readouterr()
    assert train(corpus, more) == 0
    answer = capsys.readouterr()
    assert "Nothing is left to do" not in answer.err
    assert "validation (" in answer.out
    card = Model.load(resolve_model_folder(run), "cpu").card
    assert card.scores
    assert max(card.averaged_steps, default=card.steps) > 4
    assert train(corpus, more) == 0
    assert "Nothing is left to do" in capsys.readouterr().err


def test_a_finished_run_accepts_other_search_settings_and_is_scored_again(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(corpus) == 0
    capsys.readouterr()
    assert train(corpus, {"--inference.beam-size": "3"}) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].startswith("BLEU 0 on 2 held-out sentences means little: there are too few. ")
    assert "validation (2 sentences, beam 3): BLEU" in lines[1]
    trained = Model.load(resolve_model_folder(corpus.parent / "run"), "cpu")
    assert trained.config.inference.beam_size == 3
    assert any(row[0] == "validation, beam 3" for row in trained.card.scores)


def test_a_stop_during_the_last_validation_takes_effect_after_saving(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = TrainingSession.measure

    def stopped(*given: Any) -> dict[str, float]:
        signal.raise_signal(signal.SIGTERM)
        return measure(*given)

    rarely = {"--validate.every-epochs": "0", "--validate.every-steps": "100"}
    with monkeypatch.context() as patch:
        patch.setattr(TrainingSession, "measure", stopped)
        assert train(corpus, rarely) == 143
    assert "Saved after step 2. The same command continues." in capsys.readouterr().err
    assert train(corpus, rarely) == 0
    assert "validation (" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--data.dev", "--data.test"])
def test_text_that_is_all_in_the_validation_or_test_data_is_refused(
    corpus: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = corpus.with_name("other.tsv")
    shutil.copyfile(corpus, other)
    assert train(corpus, {flag: str(other)}) == 2
    assert f"every source sentence of {corpus} is also in {other}, so that no pair is left" in capsys.readouterr().err


def test_the_time_left_counts_the_part_of_an_epoch(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a constant pace, the time left falls with every step, also in the first epoch and across epochs."""
    clock, left = iter(range(10**6)), []
    monkeypatch.setattr("dragoman.training.loop.time.perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(RunLog, "progress", lambda self, event, seconds: left.append(seconds))
    limits = {"--train.max-epochs": "4", "--train.max-steps": "0", "--train.log-every-steps": "1"}
    assert train(corpus, limits | {"--validate.every-epochs": "100"}) == 0
    steps = len(left)
    assert steps > 8
    assert left == pytest.approx([steps - step for step in range(1, steps + 1)], abs=0.01)


def test_the_same_text_may_have_another_name(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = corpus.parent / "run"
    assert train(corpus) == 0
    moved = tmp_path / "elsewhere" / "text.tsv"
    moved.parent.mkdir()
    corpus.rename(moved)
    flags = [word for pair in (FLAGS | {"--train.max-steps": "3"}).items() for word in pair]
    monkeypatch.chdir(moved.parent)
    assert run_command(["train", "--data", moved.name, "--out", str(run), *flags]) == 0
    assert "Continuing after step 2." in capsys.readouterr().err
    write_pairs(moved, "other pears")
    assert run_command(["train", "--data", f"./{moved.name}", "--out", str(run), *flags]) == 2
    said = capsys.readouterr().err
    assert f"{moved.name} is not the text that this run started with, which was {corpus}" in said
    aligned = [tmp_path / "other.en", tmp_path / "other.de"]
    for path in aligned:
        path.write_text(f"{path.suffix}\n" * 300, encoding="utf-8")
    two = ["--src", str(aligned[0]), "--tgt", str(aligned[1])]
    assert run_command(["train", *two, "--out", str(run), *flags]) == 2
    assert "is a run with `data.train` = " in capsys.readouterr().err
    (run / "data" / "corpus.json").unlink()  # now the original text is unknown
    shutil.copyfile(moved, "copy.tsv")
    assert run_command(["train", "--data", "copy.tsv", "--out", str(run), *flags]) == 2
    assert "is a run with `data.train`" in capsys.readouterr().err


def test_a_run_keeps_its_number_of_threads_until_it_is_set(
    corpus: Path, computing_on: Callable[[int], AbstractContextManager[None]]
) -> None:
    """Dropout depends on the number of threads, so a machine with more processors must not change a run."""
    run = corpus.parent / "run"
    with computing_on(3):
        assert train(corpus) == 0
    with computing_on(2):
        assert train(corpus, {"--train.max-steps": "3"}) == 0
        assert _frozen_threads(run) == 3
        assert train(corpus, {"--train.max-steps": "4", "--train.threads": "1"}) == 0
    assert _frozen_threads(run) == 1


def test_a_run_and_a_model_of_an_earlier_version_continue(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = corpus.parent / "run"
    with monkeypatch.context() as earlier:
        for module in ("dragoman.training.run.frozen_settings", "dragoman.bundle.folder"):
            earlier.setattr(f"{module}.dump_config", _with_old_names)
        assert train(corpus) == 0
    record = json.loads((run / "finished.json").read_text(encoding="utf-8"))
    record["inference"] = {
        "alpha" if key == "length_penalty_alpha" else key: record["inference"][key] for key in record["inference"]
    }
    (run / "finished.json").write_text(json.dumps(record), encoding="utf-8")
    capsys.readouterr()
    assert train(corpus) == 0
    said = capsys.readouterr().err
    assert said.count(f"; {run / 'config.toml'} still has the old names.") == 1
    folder = resolve_model_folder(run)
    assert run_command(["translate", str(folder), "--text", "one"]) == 0
    assert f"; {folder / 'config.toml'} still has the old names." in said + capsys.readouterr().err
    assert train(corpus, {"--train.max-steps": "3"}) == 0
    assert "old names" not in (run / "config.toml").read_text(encoding="utf-8")
    assert "length_penalty_alpha" in (run / "config.toml").read_text(encoding="utf-8")


def _with_old_names(config: Config) -> str:
    tables = tomllib.loads(dump_config(config))
    for old, new in RENAMED.items():
        table, name = new.split(".")
        tables[table][old.split(".")[1]] = tables[table].pop(name)
    tables["train"] |= {"r_drop": 0.0, "teachers": "", "teacher_weight": 0.5}
    return tomli_w.dumps(tables)


def _frozen_threads(run: Path) -> int:
    config = frozen_config(run)
    assert config is not None
    return config.train.threads


def test_average_writes_beside_the_model_of_the_run(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = corpus.parent / "run"
    assert train(corpus) == 0
    before = resolve_model_folder(run)
    for _ in range(2):
        assert run_command(["average", str(run)]) == 0
        assert capsys.readouterr().out.endswith(f"{run / 'mean'}\n")
    assert resolve_model_folder(run) == before
    assert Model.load(run / "mean", "cpu").card.averaged_steps
