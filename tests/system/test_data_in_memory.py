"""Sentences in memory instead of files: the same results, runs that can be resumed, and errors that name arguments."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DragomanError
from dragoman.training.loop import Loop
from dragoman.training.session import TrainingSession
from dragoman.training.trainer import fit
from tests.system.commands import write_sides

PAIRS = load_phrasebook().generate(seed=1, count=120)
SRC, TGT = [pair.src for pair in PAIRS], [pair.tgt for pair in PAIRS]
ROWS = [{"id": number, "translation": {"en": pair.src, "de": pair.tgt}} for number, pair in enumerate(PAIRS)]
OTHER = [*TGT[:-1], "Nein."]
SETTINGS: dict[str, Any] = {
    "preset": "custom", "d_model": 16, "d_ff": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1,
    "vocab_size": 300, "train_batch_tokens": 300, "max_steps": 6, "checkpoint_every_steps": 2,
    "validate_every_steps": 6, "average_last": 0, "max_sentences": 5, "device": "cpu", "train_precision": "float32",
    "threads": 1, "max_extra_tokens": 3, "validate_beam_size": 1, "inference_beam_size": 1,
    "src_lang": "en", "tgt_lang": "de",
}  # fmt: skip


def outcome(call: Callable[[], object]) -> str:
    """What a user sees: the result of a call as text, or its error."""
    try:
        return str(call())
    except (DragomanError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"


def weights(run: Path) -> bytes:
    return (max((run / "checkpoints").iterdir()) / "model.safetensors").read_bytes()


def temporary_folders() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("dragoman-sentences-")}


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run at the same time, and have temporary folders too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two aligned files, and a run that read them."""
    folder = tmp_path_factory.mktemp("memory")
    write_sides(folder / "text", PAIRS)
    dragoman.train(folder / "text.en", folder / "text.de", folder / "run", **SETTINGS)
    return folder


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_lists_train_the_model_that_files_train_and_the_run_keeps_them(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that was stopped continues bit for bit, with the same sentences or without, wherever its folder is."""
    before = temporary_folders()
    monkeypatch.chdir(tmp_path)
    optimize = Loop.optimize

    def stop(loop: Loop, *given: Any) -> None:
        optimize(loop, *given)
        if loop.state.step == 5:
            raise KeyboardInterrupt("stopped")  # without a checkpoint

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "optimize", stop)
        train = lambda: dragoman.train(SRC, (text for text in TGT), tmp_path / "run", **SETTINGS)  # noqa: E731
        assert outcome(train) == "KeyboardInterrupt: stopped"
    assert "reading `src` and `tgt`" in capfd.readouterr().err
    assert (tmp_path / "run" / "corpus" / "src").read_bytes() == (inside / "text.en").read_bytes()
    shutil.copytree("run", "moved")
    assert "6 steps" in outcome(train)
    assert weights(Path("run")) == weights(inside / "run")
    for path in (path for path in Path("run").rglob("*") if path.is_file()):
        assert b"dragoman-sentences" not in path.read_bytes(), path
    for path in [*Path("run").glob("checkpoints/*/config.toml"), *Path("run").glob("checkpoints/*/card.md")]:
        assert str(tmp_path) not in path.read_text(), "a model is shared, without private paths"
    shutil.rmtree("run")
    moved = dragoman.Run("moved").resume(test_src=SRC[:9], test_tgt=TGT[:9])
    assert weights(moved.path) == weights(inside / "run")
    assert moved.card.test_pairs == 9
    assert f'train_src = "{tmp_path / "moved" / "corpus" / "src"}"' in (moved.path / "config.toml").read_text()
    assert temporary_folders() == before


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("lists", "has changed since this run started, and a run cannot continue with other pairs. Restore it, "),
        ("files", "is not the text that this run started with, which was "),
    ],
)
def test_other_sentences_are_refused_in_the_words_for_changed_files_and_nothing_is_lost(
    inside: Path, tmp_path: Path, start: str, said: str
) -> None:
    """Sentences and files with the same content are the same data."""
    run = shutil.copytree(inside / "run", tmp_path / "run")
    if start == "lists":  # what a run that started with lists has
        record = run / "data" / "corpus.json"
        record.write_text(record.read_text().replace(f"{inside}/text.en", "corpus/src").replace("text.de", "tgt"))
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    other = outcome(lambda: dragoman.train(SRC, OTHER, run, **SETTINGS))
    assert other.startswith(f"DataError: `tgt` {said}")
    assert kept == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "6 steps" in outcome(lambda: dragoman.train(SRC, TGT, run, **SETTINGS))


def pandas_column(texts: list[str]) -> object:
    return pytest.importorskip("pandas").Series(texts, index=range(len(texts), 0, -1), name="en")


# Everything ordered that holds strings.
COLUMNS: dict[str, Callable[[list[str]], object]] = {
    "tuple": tuple,
    "generator": lambda texts: (text for text in texts),
    "values of a dict": lambda texts: dict(enumerate(texts)).values(),
    "lines with their ends": lambda texts: [f"{text}\n" for text in texts],
    "numpy": np.array,
    "pandas": pandas_column,
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_any_kind_is_checked_in_its_order(inside: Path, column: Callable[[list[str]], Any]) -> None:
    found = outcome(lambda: dragoman.check(column(SRC), column(TGT), dev=[column(SRC[:5]), column(TGT[:5])]))
    files = outcome(lambda: dragoman.check("text.en", "text.de", dev=[SRC[:5], TGT[:5]]))
    assert found.startswith("`src` and `tgt`\n120 pairs; ")
    assert found.split("\n")[1:] == files.split("\n")[1:]
    assert "dev 1, training 1: " in found


@pytest.mark.parametrize("rows", [ROWS, list(zip(SRC, TGT, strict=True))])
def test_pairs_are_dicts_or_two_texts(rows: list[Any]) -> None:
    found = outcome(lambda: dragoman.check(iter(rows), test=[rows[:5]]))
    assert found.startswith("`data`\n120 pairs; ")
    assert "test 1, training 1: " in found


def test_columns_of_datasets_and_its_rows_are_data(inside: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"en": SRC, "de": TGT, "date": [None] * len(SRC)})
    files = outcome(lambda: dragoman.check("text.en", "text.de"))
    for data in ((table["en"], table["de"]), (table,)):
        assert outcome(lambda data=data: dragoman.check(*data)).split("\n")[1:] == files.split("\n")[1:]


def test_evaluation_and_comparison_take_sentences(inside: Path) -> None:
    translator = dragoman.load("run", device="cpu")
    files = dragoman.evaluate(translator, "text.en", "text.de", train=["text.en"])
    assert outcome(lambda: dragoman.evaluate(translator, iter(SRC), "text.de", train=[SRC, TGT])) == str(files)
    comparison = dragoman.compare("text.de", translator, "text.en", "text.de")
    assert outcome(lambda: dragoman.compare(TGT, translator, SRC, iter(TGT))) == str(comparison)


SENTENCES = "must be a path or strings in order (a list, a column), but is"
COUNTS = "`src` has 120 lines, but `tgt` has 119. The sides seem to lose their alignment near line "
# A mistake in the data of `train`, `plan` or `check`, and the start of the error.
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"src": SRC, "tgt": TGT[1:]}, f"DataError: {COUNTS}1. "),
    ({"data": [(SRC[0], TGT[0])], "src": SRC}, "ConfigError: `data` and `src` must not both be given. Leave one out."),
    ({"src": SRC}, "ConfigError: `src` is given, but `tgt` is not. Give both, or one file with both sides as `data`."),
    ({"src": SRC, "tgt": []}, "DataError: `tgt` has no sentence. Pass a list: a generator yields "),
    ({"src": 5, "tgt": TGT}, f"ConfigError: `src` {SENTENCES} 5."),
    ({"src": {"a"}, "tgt": TGT}, f"ConfigError: `src` {SENTENCES} of type set. Give each column "),
    ({"src": b"train.en", "tgt": TGT}, f"ConfigError: `src` {SENTENCES} of type bytes. "),
    ({"src": np.array([["a", "b"]]), "tgt": TGT}, f"ConfigError: `src` {SENTENCES} of type ndarray. "),
    ({"src": ["a", None], "tgt": TGT}, "DataError: `src`, sentence 2 must be a string, but is None. "),
    ({"src": ["a", "b", float("nan")], "tgt": TGT}, "DataError: `src`, sentence 3 must be a string, but is nan. "),
    ({"src": [b"a"], "tgt": TGT}, "DataError: `src`, sentence 1 must be a string, but is b'a'. "),
    ({"src": ["text.en"], "tgt": ["text.de"]}, "ConfigError: `src` must be one path or sentences, but is a list "),
    ({"src": SRC, "tgt": TGT, "dev_src": SRC[:9]}, "ConfigError: `dev_src` is given, but `data.dev_tgt` is "),
    ({"src": SRC, "tgt": TGT, "dev_src": SRC[:9], "dev_tgt": TGT[:8]}, "DataError: `dev_src` has 9 lines, but "),
    ({"data": SRC}, "DataError: `data`, pair 1 must be a dict or two texts, but is 'I have been "),
    ({"data": {"en": SRC, "de": TGT}}, "ConfigError: `data` must be a path or pairs in order (a "),
    ({"data": [{"en": "One.", "de": None}]}, "DataError: `data`, line 1 has no "),
    ({"src": SRC, "tgt": OTHER[::-1], "src_lang": "en", "tgt_lang": "cs"}, "DataError: `src` and `tgt`: "),
]  # fmt: skip


@pytest.mark.parametrize(("data", "line"), MISTAKES, ids=[line[:60] for _, line in MISTAKES])
def test_a_mistake_in_the_data_is_one_line_and_leaves_nothing(
    inside: Path, tmp_path: Path, data: dict[str, Any], line: str
) -> None:
    before = temporary_folders()
    settings = {key: value for key, value in SETTINGS.items() if key not in ("src_lang", "tgt_lang")}
    said = outcome(lambda: dragoman.train(out=tmp_path / "run", **settings | data))
    assert said.startswith(line)
    assert "\n" not in said
    assert outcome(lambda: dragoman.plan(**settings | data)).startswith(line)
    assert not (tmp_path / "run").exists()
    assert temporary_folders() == before


@pytest.mark.slow
def test_a_run_on_sentences_is_planned_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = outcome(lambda: dragoman.plan(iter(SRC), iter(TGT), **SETTINGS | {"max_steps": 5}))
    assert "an epoch" in plan
    assert os.listdir() == []
    assert "6 steps" in outcome(lambda: dragoman.train(SRC, TGT, "run", **SETTINGS))
    Path("run").rename("moved")
    assert run_command(["verify", "moved", "--sentences", "3", "--steps", "4"]) == 0
    assert "resum" in capfd.readouterr().out


@pytest.mark.slow
def test_fine_tuning_scores_a_replay_test_although_the_temporary_files_are_gone(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training may take longer than the files of a temporary folder live."""

    def fit_and_clean(session: TrainingSession) -> str:
        for name in temporary_folders():
            shutil.rmtree(Path(tempfile.gettempdir()) / name)
        return fit(session)

    monkeypatch.setattr("dragoman.workflows.training.training.fit", fit_and_clean)
    replay = {"replay_test_src": SRC[:9], "replay_test_tgt": TGT[:9]}
    settings = {"start_from": "run", "max_steps": 2, "device": "cpu", "threads": 1, "max_extra_tokens": 3}
    assert "2 steps" in outcome(lambda: dragoman.train(SRC[9:], TGT[9:], tmp_path / "tuned", **settings, **replay))
    assert any(name.startswith("replay test") for name in dragoman.Run(tmp_path / "tuned").scores)


def test_an_iterable_that_fails_raises_its_own_error_and_leaves_nothing(tmp_path: Path) -> None:
    before = temporary_folders()

    def texts() -> Iterator[str]:
        yield from SRC[:20]
        raise PermissionError("no more")

    with pytest.raises((PermissionError, DragomanError)) as failure:
        dragoman.train(texts(), TGT, tmp_path / "new" / "run", **SETTINGS)
    assert str(failure.value) == "no more"
    assert not (tmp_path / "new").exists()
    assert temporary_folders() == before
