"""The model that comes with the package: `demo` names it, in every command and from Python."""

from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.kernels.library import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="int8 on a CPU needs numba")


def test_it_translates_new_sentences_of_the_phrasebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = load_phrasebook().generate(seed=11, count=40)
    translations = dragoman.load("demo")([pair.src for pair in pairs])
    assert sum(text == pair.tgt for text, pair in zip(translations, pairs, strict=True)) >= 38


def test_commands_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["translate", "demo", "--text", "Where is the train station?"]) == 0
    assert capsys.readouterr().out == "Wo ist der Bahnhof?\n"
    Path("test.en").write_text("Where is the train station?\n" * 6, encoding="utf-8")
    Path("test.de").write_text("Wo ist der Bahnhof?\n" * 6, encoding="utf-8")
    test = ["--src", "test.en", "--ref", "test.de"]
    assert run_command(["compare", "demo", "test.de", *test]) == 0
    assert "no difference shown" in capsys.readouterr().out


def test_a_folder_of_the_same_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert run_command(["translate", "demo", "--text", "one"]) == 2
