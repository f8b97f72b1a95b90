"""The model that comes with the package: `demo` names it, in every command and from Python."""

import csv
from importlib.resources import files
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.kernels.library import is_available
from dragoman.records import Preserve

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "demo_model.tsv"

pytestmark = pytest.mark.skipif(not is_available(), reason="int8 on a CPU needs numba")


def test_it_translates_what_newcomers_type() -> None:
    """At least 150 of 200 outputs are those that a person judged right, and an absurd one is flagged."""
    with RESULTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 200
    assert sum(row["in Tatoeba"] == "no" for row in rows) >= 100
    assert {row["judgement"] for row in rows} <= {"right", "wrong", "absurd"}
    found = dragoman.load("demo").translate_detailed([row["source"] for row in rows], Preserve(by_sentence=True))
    pairs = list(zip(rows, found, strict=True))
    assert sum(row["judgement"] == "right" and row["output"] == one.text for row, one in pairs) >= 150
    assert sum(row["judgement"] == "absurd" for row in rows) <= 10
    assert all(one.flags for row, one in pairs if row["judgement"] == "absurd")


def test_its_text_is_credited() -> None:
    card = (files("dragoman.demo") / "model" / "card.md").read_text(encoding="utf-8")
    for link in (
        "https://tatoeba.org",
        "https://www.manythings.org/anki/",
        "https://creativecommons.org/licenses/by/2.0/",
    ):
        assert link in card


def test_the_models_of_the_package_are_small() -> None:
    assert sum(path.stat().st_size for path in Path(str(files("dragoman.demo"))).glob("model/*")) < 8_000_000


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


def test_a_folder_of_the_same_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert run_command(["translate", "demo", "--text", "one"]) == 2
    error = capsys.readouterr().err
    assert "hides the model `demo` that comes with Dragoman. Rename it, or work in another folder." in error
    Path("demo").rename("other")
    assert run_command(["translate", "other", "--text", "one"]) == 2
    assert "hides" not in capsys.readouterr().err


def test_the_help_and_the_error_for_a_missing_model_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["--help"]) == 0
    assert "`dragoman translate demo` uses a small English-German model" in capsys.readouterr().out
    for verb, arguments in (("translate", ["--text", "one"]), ("inspect", ["one"]), ("serve", [])):
        assert run_command([verb, "run", *arguments]) == 2
        assert (
            "run does not exist. Name a model folder, a run of `dragoman train`, or `demo`." in capsys.readouterr().err
        )
