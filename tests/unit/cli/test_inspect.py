import io
import json
import sys
import time
from pathlib import Path

import pytest

from dragoman.cli.inspect import _one_line
from dragoman.cli.main import run_command
from dragoman.data.store import write_store
from dragoman.inference.translator import Translator
from dragoman.text.tokenization.encoding import RaggedIds


@pytest.fixture
def run_folder(model_folder: Path, tmp_path: Path) -> Path:
    """The parts of a run that `inspect` reads: a pointer to its model, and two test sentences."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "averaged").symlink_to(model_folder, target_is_directory=True)
    (run / "data").mkdir()
    with write_store(run / "data" / "test", "key", 300, 300, keep_text=True) as writer:
        writer.append(RaggedIds.of([[4], [5]]), RaggedIds.of([[6], [7]]), ["one two", "three"], ["eins zwei", "drei"])
    return run


def test_the_page_is_written_and_the_translation_printed(
    model_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run_command(["inspect", str(model_folder), "one two", "--out", str(page)]) == 0
    answer = capfd.readouterr()
    expected = Translator.load(model_folder).translate(["one two"])[0]
    shown = _one_line(expected)
    assert answer.out == f"SOURCE    one two\nPREDICTED {shown}\n"
    assert answer.err.endswith(f"dragoman: wrote the page to {page}; open it in a browser\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_page_has_a_default_name(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["inspect", str(model_folder), "one"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["inspection.html"]


def test_json_is_the_only_output_and_search_flags_apply(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["inspect", str(model_folder), "one two", "--json", "--inference.beam-size", "4"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["src"]["text"] == "one two"
    assert len(document["n_best"]) == 4
    assert not list(tmp_path.iterdir())


def test_a_sampling_model_is_inspected_with_beam_search(
    model_folder: Path, sampling_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["--json", "--inference.beam-size", "2"]
    found = []
    for folder, notes in ((model_folder, 0), (sampling_folder, 1)):
        assert run_command(["inspect", str(folder), "one two", *command]) == 0
        answer = capfd.readouterr()
        found.append(json.loads(answer.out) | {"model": ""})
        assert answer.err.count("with beam search, although its settings sample translations\n") == notes
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_the_picture_shows_the_heads(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        run_command(["inspect", str(model_folder), "one $x$ 駅", "--png", "heads.png", "--kind", kind, "--layer", "1"])
        == 0
    )
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["heads.png"]


def test_a_test_sentence_is_printed_with_its_reference(
    run_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run_command(["inspect", str(run_folder), "--test", "2", "--out", str(page)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == ["SOURCE    three", "TARGET    drei"]
    assert lines[2].startswith("PREDICTED ")
    assert '"reference":"drei"' in page.read_text(encoding="utf-8")


class Terminal(io.StringIO):
    """A terminal that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)


def test_a_terminal_shows_the_translation_token_by_token(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run_command(["inspect", str(model_folder), "one two", "--out", str(tmp_path / "p.html")]) == 0
    answer = Translator.load(model_folder).translate_detailed(["one two"])[0]
    assert len(waits) >= len(answer.candidates[0].tokens)
    shown = _one_line(answer.text)
    assert terminal.getvalue() == f"SOURCE    one two\nPREDICTED {shown}\n"
    assert f"PREDICTED {shown}" not in terminal.pieces


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "the text is empty."),
        ([" \n "], "the text is empty."),
        (["one " * 10_000], "the text may have at most 500 tokens, but has"),
        (["a" + "\u0301" * 5000], "the text may have at most 500 tokens, but has"),
        ([], "Write TEXT in quotes, or `--test N` for a run."),
        (["one", "--test", "1"], "Write TEXT in quotes, or `--test N` for a run."),
        (["--test", "1"], "has no test sentences"),
        (["one", "--layer", "9", "--png", "x.png"], "`--layer` must be from 1 to 1"),
        (["one", "--png", "x.gif"], "does not have the extension of a figure."),
        (["one", "--out", "nowhere/x.html"], "nowhere is not a folder."),
        (["one", "--kind", "crosss"], "Did you mean"),
        (["one", "--out", ""], "`--out` is empty. Name a file."),
        (["one", "--out", "."], "`--out` is ., which is a folder. Give a file name, such as inspection.html."),
        (["one", "--png", "."], "`--png` is ., which is a folder. Give a file name, such as figure.png."),
        (["one", "--png", "nowhere/x.png"], "`--png` is nowhere/x.png, but nowhere is not a folder."),
        (["one", "--out", "x.png", "--png", "./x.png"], "`--out` and `--png` must differ, but both are x.png."),
        (["one", "--layer", "1"], "`--layer` has no effect without `--png`."),
        (["one", "--kind", "cross", "--json"], "`--kind` has no effect without `--png`."),
        (["one", "--inference.sample", "true"], "`--inference.sample` is not a flag of `dragoman inspect`."),
        (["one", "--inference.mbr-samples", "4"], "`--inference.mbr-samples` is not a flag of `dragoman inspect`."),
        (["one", "--inference.n-best", "2"], "`--inference.n-best` is not a flag of `dragoman inspect`."),
        (["one", "--inference.beam-size", "0"], "must be at least 1"),
    ],
)
def test_bad_input_is_one_line(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    arguments: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run_command(["inspect", str(model_folder), *arguments]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_read_only_folder_is_refused_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    page = tmp_path / "p.html"
    assert run_command(["inspect", "no-model", "one", "--out", str(page)]) == 2
    assert f"`--out` is {page}, but {tmp_path} is not writable." in capfd.readouterr().err


def test_joiners_are_printed_and_control_characters_are_not() -> None:
    assert _one_line("می\u200cخواهم 👩\u200d👧\x1b[2J\u202e") == "می\u200cخواهم 👩\u200d👧 [2J "


@pytest.mark.parametrize("number", ["0", "3", "-1"])
def test_a_missing_test_sentence_is_an_error(run_folder: Path, capfd: pytest.CaptureFixture[str], number: str) -> None:
    assert run_command(["inspect", str(run_folder), "--test", number]) == 2
    said = capfd.readouterr().err
    if number == "3":
        assert f"`--test` must be from 1 to 2, the test sentences of {run_folder}, but is {number}." in said
    else:
        assert f'`--test` must be a whole number of at least 1, but is "{number}".' in said


@pytest.mark.parametrize(
    "text",
    ["x", "</script><script>alert(1)</script>", "\u202eone\u202c", "👩‍👩‍👧 👍🏽", "e" + "\u0301" * 100, "\udcff"],
)
def test_unusual_texts_have_a_page(model_folder: Path, tmp_path: Path, text: str) -> None:
    assert run_command(["inspect", str(model_folder), text, "--out", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2
