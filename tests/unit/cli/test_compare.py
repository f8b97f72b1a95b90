import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.bundle import Model
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.evaluation.metrics import score_outputs
from dragoman.inference.translator import Translator

SOURCES = ["one two three four", "five", "three. four five", "two one"]
REFERENCES = ["eins zwei drei vier", "fünf", "drei. vier fünf", "zwei eins"]
OUTPUTS = ["eins zwei drei", "fünf", "drei vier fünf", "zwei eins"]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("test.en", SOURCES), ("test.de", REFERENCES), ("out.de", OUTPUTS), ("short.de", OUTPUTS[:3])):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_a_model_and_a_file_are_compared(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--src", "test.en", "--ref", "test.de", "--json", "--inference.beam-size", "1"]
    assert run_command(["compare", str(model_folder), "out.de", *flags]) == 0
    answer = json.loads(capsys.readouterr().out)
    outputs = Translator.load(model_folder).translate(SOURCES, beam_size=1)
    for name, texts in (("a", outputs), ("b", OUTPUTS)):
        expected = score_outputs(texts, REFERENCES, intervals=True).scores
        assert [metric[name]["value"] for metric in answer["metrics"]] == [score.value for score in expected]
    assert answer["b_wins"] + answer["b_losses"] + answer["ties"] == 4
    assert {change["a"] for change in answer["changes"]} <= set(outputs)


@pytest.mark.parametrize("names", [("MODEL", "out.de"), ("out.de", "MODEL")])
def test_bleu_uses_the_language_of_the_model(
    names: tuple[str, str], model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = Model.load(model_folder, "cpu")
    config = replace(trained.config, data=replace(trained.config.data, tgt_lang="zh"))
    replace(trained, config=config).save(Path("MODEL"))
    flags = ["--src", "test.en", "--ref", "test.de", "--json"]
    assert run_command(["compare", *names, *flags]) == 0
    compared = json.loads(capsys.readouterr().out)["metrics"][0]["a"]["signature"]
    assert run_command(["evaluate", "MODEL", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["scores"][0]["signature"] == compared
    assert "tok:zh" in compared


def test_the_output_names_both_systems_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.de").write_text("".join(f"{line}\n" for line in REFERENCES), encoding="utf-8")
    command = ["compare", "out.de", "other.de", "--src", "test.en", "--ref", "test.de", "--train", "test.de"]
    assert run_command(command) == 0
    answer = capsys.readouterr()
    assert answer.out.startswith("A  out.de\nB  other.de\n4 sentences")
    assert "words seen in test.de" in answer.out
    assert "no difference is shown" in answer.out
    assert "is better" not in answer.out
    assert "line 1, source     one two three four" in answer.out
    assert "BLEU: nrefs:1|bs:1000|seed:12345|" in answer.out
    assert "warning: the test has only 4 sentences" in answer.err
    run_command(command)
    assert capsys.readouterr() == answer


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["out.de", "--src", "test.en", "--ref", "test.de"], "B is missing."),
        (["out.de", "short.de", "--src", "test.en", "--ref", "test.de"], "short.de has 3 lines, but test.en has 4."),
        (
            ["out.de", "gone.de", "--src", "test.en", "--ref", "test.de"],
            "gone.de does not exist. Name a model folder, a run, or a file",
        ),
        (["out.de", "out.de", "--src", "test.en", "--ref", "short.de"], "test.en has 4 lines, but short.de has 3."),
        (["out.de", "out.de", "--src", "test.en", "--ref", "test.de", "--train", "no.de"], "no.de does not exist."),
        (["out.de", "out.de", "--ref", "test.de"], "`--src` is missing."),
        (
            ["out.de", "out.de", "--src", "test.en", "--ref", "test.de", "--inference.beam-size", "2"],
            "`--inference.beam-size` needs a model, but both systems are files.",
        ),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["compare", *arguments]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith(f"dragoman: {complaint}")
    assert answer.err.count("\n") == 1


@pytest.mark.usefixtures("files")
def test_rare_words_are_counted_in_the_target_language(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.en-de.tsv").write_text("eins eins eins\tzwei\n", encoding="utf-8")
    Path("train.de").write_text("zwei\n", encoding="utf-8")
    tables = []
    for name in ("train.en-de.tsv", "train.de"):
        test = ["--src", "test.en", "--ref", "test.de", "--train", name, "--json"]
        assert run_command(["compare", "out.de", "out.de", *test]) == 0
        tables.append(json.loads(capsys.readouterr().out)["by_rarity"])
    assert tables[0] == tables[1]


@pytest.mark.usefixtures("files")
@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_pipes_are_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    pipes = []
    for name in ("out.de", "test.en"):
        reading, writing = os.pipe()
        os.write(writing, Path(name).read_bytes())
        os.close(writing)
        pipes.append(f"/dev/fd/{reading}")
    assert run_command(["compare", pipes[0], "out.de", "--src", "test.en", "--ref", "test.de", "--json"]) == 0
    arguments = ["--hyp", "out.de", "--ref", "test.de", "--src", "test.en", "--train", pipes[1]]
    assert run_command(["evaluate", *arguments]) == 0
    assert "4 of 4 test sources (100.0%)" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", ["train.en", "train", "train.tsv"])
def test_training_text_of_the_source_side_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = load_phrasebook().generate(seed=7, count=250)
    write("test.en", [pair.src for pair in pairs[:50]])
    for file in ("test.de", "out.de"):
        write(file, [pair.tgt for pair in pairs[:50]])
    training = pairs[50:]
    write(name, [f"{pair.tgt}\t{pair.src}" if name.endswith("tsv") else pair.src for pair in training])
    write("train.de", [pair.tgt for pair in training])
    write("train.fr", ["Je voudrais deux billets pour le train de ce soir, s'il vous plaît."] * 30)
    command = ["compare", "out.de", "out.de", "--src", "test.en", "--ref", "test.de"]
    assert run_command([*command, "--train", name]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert f"{name} looks like English (en), the source side" in answer.err
    assert run_command([*command, "--train", name, "--no-language-check"]) == 0
    assert run_command([*command, "--train", "train.de"]) == 0
    capsys.readouterr()
    assert run_command([*command, "--train", "train.fr"]) == 2
    assert "train.fr looks like French (fr), but the references look like German (de)" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_a_source_side_in_an_unknown_language_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train").write_text("one two three\nfour five six\n", encoding="utf-8")
    test = ["--src", "test.en", "--ref", "test.de"]
    assert run_command(["compare", "out.de", "out.de", *test, "--train", "train"]) == 2
    assert "train looks like the source side" in capsys.readouterr().err


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
