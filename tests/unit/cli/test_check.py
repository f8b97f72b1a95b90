import json
from pathlib import Path

import pytest

from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook


@pytest.fixture(scope="module")
def phrases() -> list[tuple[str, str]]:
    return list({pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=1500)}.items())[:500]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phrases: list[tuple[str, str]]) -> Path:
    """train.en, train.de and test.en-de.tsv. The training text has two of the three test sources."""
    monkeypatch.chdir(tmp_path)
    Path("train.en").write_text("".join(f"{src}\n" for src, _ in phrases), encoding="utf-8")
    Path("train.de").write_text("".join(f"{tgt}\n" for _, tgt in phrases), encoding="utf-8")
    rows = [phrases[7], (phrases[9][0].upper(), "x"), ("Nobody ever said this before.", "y")]
    Path("test.en-de.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in rows), encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_report_has_findings_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", "train.en", "train.de", "--test", "test.en-de.tsv"]) == 2
    answer = capsys.readouterr()
    assert answer.out.startswith("train.en and train.de\n500 pairs; ")
    assert "leak: 2 (66.7%)  sources of the test set are in the training text" in answer.out
    assert answer.out.endswith("Fix the findings marked WRONG before you train on this corpus.\n")
    assert answer.err == ""


@pytest.mark.usefixtures("folder")
def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_command(
            ["check", "train.en", "train.de", "--json", "--dev", "test.en-de.tsv", "--test", "train.en", "train.de"]
        )
        == 2
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["pairs"] == 500
    found = {finding["message"]: finding for finding in answer["findings"]}
    assert found["sources of the dev set are in the training text"]["lines"] == [1, 2]
    assert found["sources of the test set are in the training text"]["share"] == 1.0


@pytest.mark.usefixtures("folder")
def test_serious_findings_come_first_and_set_the_exit_code(
    phrases: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [tgt for _, tgt in phrases]
    Path("train.de").write_text("".join(f"{tgt}\n" for tgt in ["", *targets[1:200], *targets[201:], "x"]))
    assert run_command(["check", "train.en", "train.de"]) == 2
    blocks = capsys.readouterr().out.split("\n\n")
    assert blocks[1].startswith("WRONG  misalignment")
    assert "near line 20" in blocks[1]
    assert phrases[200][0][:40] in blocks[1]
    assert "Fix the findings marked WRONG" in blocks[-1]
    Path("train.de").write_text("")
    assert run_command(["check", "train.en", "train.de"]) == 2
    assert "train.de is empty" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([], "Either SRC and TGT or `--data` must be given."),
        (["train.en", "train.de", "--data", "test.en-de.tsv"], "Either SRC and TGT or `--data` must be given."),
        (["train.en", "train.de", "test.en-de.tsv"], "SRC TGT must be one or two files, but is 3"),
        (["train.en"], "train.en ends in .en"),
        (["train.en", "missing.de"], "missing.de does not exist"),
        (["train.en", "train.de", "--test", "a", "b", "c"], "`--test` must be one or two files, but is 3"),
    ],
)
def test_mistakes(arguments: list[str], match: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", *arguments]) == 2
    answer = capsys.readouterr()
    assert match in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""
