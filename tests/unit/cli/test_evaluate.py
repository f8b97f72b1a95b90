import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from dragoman.bundle import Card, replace_card
from dragoman.cli.main import run_command
from dragoman.evaluation.metrics import score_outputs
from dragoman.inference.translator import Translator


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.en").write_text("one two three four\nfive\n", encoding="utf-8")
    Path("test.de").write_text("eins zwei drei vier\nfünf\n", encoding="utf-8")
    Path("out.de").write_text("eins zwei drei vier\nfünfe\n", encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_scores_of_a_file_go_to_stdout_and_warnings_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["evaluate", "--hyp", "out.de", "--ref", "test.de"]) == 0
    answer = capsys.readouterr()
    expected = score_outputs(["eins zwei drei vier", "fünfe"], ["eins zwei drei vier", "fünf"], intervals=True)
    assert answer.out == "".join(f"{score}\n" for score in expected.scores)
    assert answer.err == "".join(f"dragoman: warning: {warning}\n" for warning in expected.warnings)
    assert "only 2 sentences" in answer.err


@pytest.mark.usefixtures("files")
def test_json_is_one_object_with_signatures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["evaluate", "--hyp", "out.de", "--ref", "test.de", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [score["name"] for score in answer["scores"]] == ["BLEU", "chrF2", "TER"]
    assert all("version:" in score["signature"] for score in answer["scores"])
    assert answer["num_sentences"] == 2


@pytest.mark.usefixtures("files")
def test_a_model_is_scored_by_its_translations(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--inference.beam-size", "1", "--json"]
    assert run_command(["evaluate", str(model_folder), "--src", "test.en", "--ref", "test.de", *flags]) == 0
    hypotheses = Translator.load(model_folder).translate(["one two three four", "five"], beam_size=1)
    expected = score_outputs(hypotheses, ["eins zwei drei vier", "fünf"])
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert [score["value"] for score in scores] == [score.value for score in expected.scores]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_a_test_in_the_wrong_direction_is_refused(
    model_folder: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copytree(model_folder, "en-de")
    replace_card(Path("en-de"), Card(src_lang="en", tgt_lang="de"))
    models = ["en-de"] * (1 if verb == "evaluate" else 2)
    assert run_command([verb, *models, "--src", "test.de", "--ref", "test.en"]) == 2
    answer = capsys.readouterr()
    assert "test.de should be in en and test.en in de, but their names say" in answer.err
    assert answer.out == ""


@pytest.mark.usefixtures("files")
def test_the_tokenizer_follows_the_language_or_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("out.zh", "test.zh"):
        Path(name).write_text("我爱你们\n", encoding="utf-8")
    assert run_command(["evaluate", "--hyp", "out.zh", "--ref", "test.zh"]) == 0
    assert "tok:zh" in capsys.readouterr().out
    assert run_command(["evaluate", "--hyp", "out.zh", "--ref", "test.zh", "--tokenize", "char"]) == 0
    assert "tok:char" in capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_different_counts_name_both_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path("short.de").write_text("eins\n", encoding="utf-8")
    assert run_command(["evaluate", "--hyp", "short.de", "--ref", "test.de"]) == 2
    assert capsys.readouterr().err.startswith("dragoman: short.de has 1 lines, but test.de has 2")


def test_scoring_a_file_does_not_import_torch(tmp_path: Path) -> None:
    output, reference = tmp_path / "out.de", tmp_path / "test.de"
    for path in (output, reference):
        path.write_text("eins zwei drei vier\n", encoding="utf-8")
    program = (
        "import sys; from dragoman.cli.main import run_command; code = run_command(sys.argv[1:]); "
        "sys.exit('torch was imported' if 'torch' in sys.modules else code)"
    )
    command = [sys.executable, "-c", program, "evaluate", "--hyp", str(output), "--ref", str(reference)]
    answer = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("BLEU 100.00 [100.00, 100.00] (nrefs:1|")


@pytest.mark.usefixtures("files")
def test_the_checklist_counts_errors_by_kind(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", str(model_folder), "--src", "test.en", "--ref", "test.de", "--checklist"]
    assert run_command(command) == 0
    rows = capsys.readouterr().out.split("\n")[3:-1]
    names = ["numbers", "names", "negation", "questions", "long", "short", "ALL CAPS", "no final dot", "empty"]
    assert [row[:13].strip() for row in rows] == names
    assert rows[-1].split() == "empty 1 of 1 an empty source gives an empty output".split()
    assert run_command([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["checklist"]
    assert [finding["name"] for finding in found] == names
    assert run_command(["evaluate", "--hyp", "out.de", "--ref", "test.de", "--checklist"]) == 2
    assert "`--checklist` needs a model" in capsys.readouterr().err


@pytest.fixture
def leaked(files: None) -> None:
    Path("test.en").write_text("one two three four\nfive six seven eight nine\nten\n", encoding="utf-8")
    Path("test.de").write_text("eins zwei drei vier\nfünf sechs sieben acht neun\nzehn\n", encoding="utf-8")
    Path("out.de").write_text("eins zwei drei fünf\nfünf sechs sieben acht neun\nzehn\n", encoding="utf-8")
    Path("train.en").write_text("nothing\nFive six  seven eight nine\n", encoding="utf-8")
    Path("train.en-de.tsv").write_text("five six hundred eight nine\tx\nTen!\tzehn\n", encoding="utf-8")


@pytest.mark.usefixtures("leaked")
@pytest.mark.parametrize(
    ("training", "kept", "exactly"),
    [(["train.en"], [0, 2], 1), (["train.en-de.tsv"], [0], 0), (["train.en", "train.en-de.tsv"], [0], 1)],
)
def test_scores_without_leaked_sentences(
    training: list[str], kept: list[int], exactly: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["evaluate", "--hyp", "out.de", "--ref", "test.de", "--src", "test.en", "--train", *training]
    assert run_command([*given, "--json"]) == 0
    answer = capsys.readouterr()
    scores = json.loads(answer.out)
    hypotheses, references = (Path(name).read_text(encoding="utf-8").split("\n") for name in ("out.de", "test.de"))
    expected = score_outputs(
        [hypotheses[place] for place in kept], [references[place] for place in kept], intervals=True
    )
    assert scores["num_sentences"] == 3
    assert scores["without_leaks"]["num_sentences"] == len(kept)
    assert [score["value"] for score in scores["without_leaks"]["scores"]] == [score.value for score in expected.scores]
    assert f"{3 - len(kept)} of 3 test sources" in answer.err
    assert f"{exactly} exactly" in answer.err
    assert run_command(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:] == [f"without leaks {score}" for score in expected.scores]


@pytest.mark.usefixtures("leaked")
def test_a_test_of_leaked_sentences_only_is_scored_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["evaluate", "--hyp", "out.de", "--ref", "test.de", "--src", "test.en", "--train", "test.en"]
    assert run_command(given) == 0
    answer = capsys.readouterr()
    assert len(answer.out.splitlines()) == 3
    assert "the training text contains every test sentence" in answer.err


@pytest.mark.usefixtures("leaked")
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--hyp", "out.de", "--train", "train.en"], "`--train` needs `--src`"),
        (["--hyp", "out.de", "--src", "train.en", "--train", "train.en"], "train.en has 2 lines, but out.de has 3"),
        (["--hyp", "out.de", "--src", "test.en", "--train", "missing"], "missing does not exist"),
    ],
)
def test_mistakes_about_leaks(arguments: list[str], match: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["evaluate", "--ref", "test.de", *arguments]) == 2
    assert match in capsys.readouterr().err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("name", "has"), [("train.en-de.tsv", 1), ("train.de-en.tsv", 1), ("train.jsonl", 1)])
@pytest.mark.parametrize("lang", ["en", "de"])
def test_leaks_are_searched_on_the_side_of_the_source_language(
    name: str, has: int, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"en": "one two three four", "de": "eins zwei drei vier"}
    langs = name.split(".")[1].split("-") if name.endswith("tsv") else ["fr", "en", "de"]
    if name.endswith("tsv"):
        Path(name).write_text("\t".join(texts[code] for code in langs) + "\n", encoding="utf-8")
    else:
        translation = {code: texts.get(code, "un deux") for code in langs}
        Path(name).write_text(json.dumps({"translation": translation}) + "\n", encoding="utf-8")
    other = "de" if lang == "en" else "en"
    arguments = ["--hyp", f"test.{other}.out", "--ref", f"test.{other}", "--src", f"test.{lang}", "--train", name]
    Path(f"test.{other}.out").write_text("x\ny\n", encoding="utf-8")
    assert run_command(["evaluate", *arguments]) == 0
    assert f"{has} of 2 test sources (50.0%)" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_missing_files_are_reported_before_translating(
    model_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: pytest.fail("it translates"))
    test = ["--src", "test.en", "--ref", "test.de"]
    assert run_command(["evaluate", str(model_folder), *test, "--train", "nothere.en"]) == 2
    assert "nothere.en" in capsys.readouterr().err
    Path("empty").mkdir()
    for other in ("nothere", "empty"):
        assert run_command(["compare", str(model_folder), other, *test]) == 2
        assert other in capsys.readouterr().err
