"""The lexicon of a model: learned in training, by `dragoman calibrate` and `dragoman.calibrate`, and kept in copies."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.bundle import resolve_model_folder
from dragoman.bundle.card import read_card
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import DataError, ModelError
from tests.system.commands import write_sides, write_tsv

SIZES: dict[str, Any] = {"preset": "custom", "d_model": 16, "d_ff": 16, "num_heads": 2, "vocab_size": 1000}
SETTINGS: dict[str, Any] = SIZES | {"max_steps": 4, "device": "cpu", "train_batch_tokens": 500, "average_last": 0}
SENTENCE = "Where is the station?"
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    pairs = load_phrasebook().generate(seed=1, count=3000)
    write_sides(folder / "text", pairs[:2000])
    write_sides(folder / "more", pairs[2000:])
    write_sides(folder / "few", pairs[:30])
    write_sides(folder / "same", pairs[:1] * 500)
    shifted = [replace(pair, tgt=other.tgt) for pair, other in zip(pairs[:2000], pairs[700:2700], strict=True)]
    write_sides(folder / "shifted", shifted)
    write_tsv(folder / "more.en-de.tsv", pairs[2000:])
    dragoman.train(folder / "text.en", folder / "text.de", folder / "run", **SETTINGS)
    return folder


@pytest.fixture
def old(folder: Path, tmp_path: Path) -> Path:
    """A model of a version without lexicons."""
    model = dragoman.load(folder / "run", device="cpu").model.with_lexicon(None, 0)
    model.save(tmp_path / "old")
    return tmp_path / "old"


def links(model: Path, target: str = "Wo ist der Bahnhof?") -> Sequence[tuple[int, int]]:
    """The links between a sentence and a translation that the model is forced to write."""
    translator = dragoman.load(model, device="cpu")
    [found] = translator.translate_detailed([SENTENCE], details=dragoman.Details(alignment=True), prefixes=[target])
    return [link for link in found.alignment or () if link[1] < 4]


def test_training_learns_a_lexicon_that_aligns_words(folder: Path) -> None:
    model = dragoman.Run(folder / "run").model
    assert (model / "lexicon.safetensors").stat().st_size < 5e6
    assert read_card(model).lexicon_pairs > 1500
    assert "lexicon.safetensors" in json.loads((model / "manifest.json").read_text())["files"]
    assert links(model) == [(0, 0), (1, 1), (2, 2), (3, 3)]  # the model itself has learned nothing in four steps


def test_calibrating_an_old_model_changes_its_alignments_only(folder: Path, old: Path, capsys: Said) -> None:
    before = dragoman.load(old, device="cpu")
    assert links(old) != [(0, 0), (1, 1), (2, 2), (3, 3)]
    capsys.readouterr()
    assert run_command(["translate", str(old), "--text", SENTENCE, "--alignment"]) == 0
    said = capsys.readouterr().err
    assert "the model has no lexicon" in said
    assert f"`dragoman calibrate {old} --src FILE --ref FILE`" in said
    sides = ["--src", str(folder / "text.en"), "--ref", str(folder / "text.de")]
    assert run_command(["calibrate", str(old), *sides]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{old} has a lexicon of ")
    assert "entries from 1,800 sentence pairs. In pairs that were left out, it links " in out
    assert links(old) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    after = dragoman.load(old, device="cpu")
    assert after.translate([SENTENCE]) == before.translate([SENTENCE])
    assert replace(after.card, lexicon_pairs=0) == before.card
    assert run_command(["translate", str(old), "--text", SENTENCE, "--alignment"]) == 0
    assert "lexicon" not in capsys.readouterr().err


def test_more_text_extends_a_lexicon(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(dragoman.Run(folder / "run").model, model)
    before = read_card(model).lexicon_pairs
    done = dragoman.calibrate(model, folder / "more.en-de.tsv", folder / "more.en-de.tsv")
    assert done.folder == model
    assert done.pairs == before + 900 == read_card(model).lexicon_pairs
    assert 0.5 < done.linked < 1
    assert str(done).startswith(f"{model} has a lexicon of {done.entries:,} entries")
    sides = [(folder / f"text.{language}").read_text(encoding="utf-8").splitlines()[:200] for language in ("en", "de")]
    assert dragoman.calibrate(model, *sides).pairs == done.pairs + 180


def test_copies_and_runs_that_continue_keep_the_lexicon(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    expected = (dragoman.Run(run).model / "lexicon.safetensors").read_bytes()
    copies = [dragoman.export(run, "int8", tmp_path / "small"), dragoman.average(run, out=tmp_path / "mean")]
    continued = dragoman.train(folder / "text.en", folder / "text.de", run, **(SETTINGS | {"max_steps": 6}))
    assert continued.model != dragoman.Run(folder / "run").model
    for model in (*copies, continued.model):
        assert (model / "lexicon.safetensors").read_bytes() == expected


def test_fine_tuning_extends_the_lexicon_also_if_it_is_stopped(folder: Path, tmp_path: Path) -> None:
    files = folder / "more.en", folder / "more.de"
    start: dict[str, Any] = {"start_from": str(folder / "run"), "max_steps": 2, "device": "cpu"}
    tuned = tmp_path / "tuned"
    model = dragoman.train(*files, tuned, **start).model
    base = dragoman.Run(folder / "run").model
    assert read_card(model).lexicon_pairs > read_card(base).lexicon_pairs + 800
    expected = (model / "lexicon.safetensors").read_bytes()
    dragoman.train(*files, tuned, **(start | {"max_steps": 4}))
    last = max((tuned / "checkpoints").iterdir())
    assert last != model
    assert (last / "lexicon.safetensors").read_bytes() == expected


@pytest.mark.parametrize(
    ("model", "src", "ref", "words"),
    [
        ("old", "few.en", "few.de", "few.en and few.de must have at least 50 different pairs to learn from, but the "),
        ("old", "same.en", "same.de", "to learn from, but the usable ones are 1. Add more text, such as the training "),
        ("old", "shifted.en", "shifted.de", "shifted.en and shifted.de do not translate each other, or 1,"),
        ("old", "text.de", "text.en", "text.de should be in en and text.en in de, but their names say the opposite. "),
        ("old", "text.en", "few.de", "text.en has 2000 lines, but few.de has 30"),
        ("old", "text.en", "missing.de", "missing.de"),
        (
            "demo",
            "text.en",
            "text.de",
            "demo is part of the package and cannot be changed. Name",
        ),
        ("nothing", "text.en", "text.de", "nothing does not exist. Name a model folder, a run of `dragoman train`"),
    ],
)
def test_what_cannot_be_learned_changes_nothing(
    folder: Path, old: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said, model: str, src: str, ref: str, words: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted((path, path.read_bytes()) for path in old.iterdir())
    path = str(old) if model == "old" else model
    assert run_command(["calibrate", path, "--src", src, "--ref", ref]) == 2
    said = capsys.readouterr().err
    assert words in said.replace("The sides of ", "")
    assert said.count("\n") <= 2
    with pytest.raises((DataError, ModelError, dragoman.errors.ConfigError)) as failure:
        dragoman.calibrate(path, src, ref)
    assert "--" not in str(failure.value)
    assert sorted((path, path.read_bytes()) for path in old.iterdir()) == before


@pytest.mark.parametrize("damage", ["truncated", "other"])
def test_a_wrong_lexicon_is_an_error_when_words_are_aligned(folder: Path, tmp_path: Path, damage: str) -> None:
    trained = dragoman.load(folder / "run", device="cpu").model
    content = trained.lexicon_file[:-8]
    if damage == "other":
        other = dragoman.train(
            folder / "text.en", folder / "text.de", tmp_path / "run", **(SETTINGS | {"vocab_size": 400})
        )
        content = dragoman.load(other, device="cpu").model.lexicon_file
    replace(trained, lexicon_file=content).save(tmp_path / "model")
    translator = dragoman.load(tmp_path / "model", device="cpu")
    assert translator(SENTENCE, max_extra_tokens=3)
    with pytest.raises(ModelError, match=r"^lexicon\.safetensors of the model .*(Copy|download)"):
        translator.translate_detailed([SENTENCE], details=dragoman.Details(alignment=True))


@pytest.mark.parametrize("text", ["", "https://x.org/", "...", "?!"])
def test_texts_without_words_to_link(folder: Path, text: str) -> None:
    """An empty line, a line that is only a URL, or punctuation: between other lines, and as markup."""
    translator = dragoman.load(folder / "run", device="cpu")
    details = dragoman.Details(alignment=True)
    for preserve in (dragoman.Preserve(), dragoman.Preserve(protect=True)):
        found = translator.translate_detailed([SENTENCE, text, SENTENCE], preserve=preserve, details=details)
        assert [one.alignment is None for one in found] == [False] * 3
        if preserve.protect and "/" in text:
            assert found[1].text == text
    assert dragoman.translate_html(translator, f"<p>{SENTENCE}</p><p><b>{text}</b></p>").count("<b>") == 1


def test_final_punctuation_links_no_words(folder: Path) -> None:
    """The dots of "Xyzzy." and "Katze." are linked, which says nothing about these words."""
    translator = dragoman.load(folder / "run", device="cpu")
    details = dragoman.Details(alignment=True)
    [found] = translator.translate_detailed(["Xyzzy."], details=details, prefixes=["Katze."])
    assert (0, 0) not in (found.alignment or ())


def test_calibrating_leaves_a_loaded_model_usable(folder: Path, tmp_path: Path) -> None:
    small = dragoman.export(folder / "run", "int8", tmp_path / "small")
    translator = dragoman.load(small, device="cpu")
    before = translator.translate([SENTENCE])
    dragoman.calibrate(small, folder / "more.en", folder / "more.de")
    assert translator.model.transformer is not None  # reads the weights again
    assert translator.translate([SENTENCE]) == before


def test_the_model_of_the_package_is_not_changed_under_another_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(resolve_model_folder(Path("demo")))
    with pytest.raises(ModelError, match=r"alias is part of the package and cannot be changed"):
        dragoman.calibrate(tmp_path / "alias", folder / "text.en", folder / "text.de")


def test_repeated_pairs_count_once(folder: Path, old: Path) -> None:
    sides = [(folder / f"few.{language}").read_text(encoding="utf-8").splitlines() * 20 for language in ("en", "de")]
    with pytest.raises(DataError, match=r"at least 50 different pairs to learn from, but the usable ones are 27"):
        dragoman.calibrate(old, *sides)


def test_an_ensemble_aligns_by_the_lexicon_of_one_of_its_models(folder: Path, old: Path) -> None:
    translator = dragoman.load(old, folder / "run", device="cpu")
    [found] = translator.translate_detailed(
        [SENTENCE], details=dragoman.Details(alignment=True), prefixes=["Wo ist der Bahnhof?"]
    )
    assert [link for link in found.alignment or () if link[1] < 4] == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_very_long_lines_are_aligned(folder: Path) -> None:
    translator = dragoman.load(folder / "run", device="cpu")
    text = " ".join(["station"] * 1000)
    [found] = translator.translate_detailed([text], details=dragoman.Details(alignment=True), max_extra_tokens=1)
    assert found.alignment is not None
