import json
import subprocess
import sys
import unicodedata
from functools import cache
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from dragoman.bundle import Card, replace_card
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook import PhrasebookPair
from dragoman.demo.phrasebook_file import load_phrasebook
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
def test_tags_that_only_the_translations_have_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.de").write_text("<b>eins zwei drei vier</b>\n<b>fünf</b>\n", encoding="utf-8")
    assert run_command(["evaluate", "--hyp", "out.de", "--ref", "test.de"]) == 0
    assert "warning: 2 of 2 lines of out.de have tags such as `<b>`, but 0 of test.de" in capsys.readouterr().err


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


@pytest.mark.usefixtures("leaked")
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            ["Fünf sechs sieben acht neun", "zehn!"],
            "2 of 3 test references (66.7%) are in the training text, 1 exactly",
        ),
        (["ten", "zehn"], "1 of 3 test sources or references (33.3%)"),
        (["zehn\tten", "eins\tone"], "1 of 3 test sources (33.3%)"),
        (["many\tzehn", "other\tdrei"], "0 of 3 test sources (0.0%)"),
    ],
    ids=["target side", "both in one file", "swapped columns", "another source of the same reference"],
)
def test_leaks_are_found_on_either_side(rows: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = "other.tsv" if "\t" in rows[0] else "other"
    Path(name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    given = ["evaluate", "--hyp", "out.de", "--ref", "test.de", "--src", "test.en", "--train", name]
    assert run_command(given) == 0
    assert said in capsys.readouterr().err


@cache
def phrasebook_pairs() -> list[PhrasebookPair]:
    return load_phrasebook().generate(seed=5, count=150)


@pytest.fixture
def translated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A test of 150 sentences (test.en, test.de, test.tsv), and fair translations, in out.de."""
    monkeypatch.chdir(tmp_path)
    pairs = phrasebook_pairs()
    outputs = damaged([pair.tgt for pair in pairs], 0.8, 1)
    write("test.en", [pair.src for pair in pairs])
    write("test.de", [pair.tgt for pair in pairs])
    write("test.tsv", [f"{pair.src}\t{pair.tgt}" for pair in pairs])
    write("out.de", outputs)
    return outputs


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def damaged(references: list[str], kept: float, seed: int) -> list[str]:
    """The references with this share of their words, and random other words instead of the rest."""
    random = Random(seed)
    words = [word for line in references for word in line.split()]
    lines = ([word if random.random() < kept else random.choice(words) for word in line.split()] for line in references)
    return [" ".join(line) for line in lines]


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What `evaluate` prints on standard output and standard error."""
    assert run_command(["evaluate", *arguments]) == 0
    answer = capsys.readouterr()
    return answer.out, answer.err


@pytest.mark.parametrize("flags", [("--flags",), ("--alignment",), ("--flags", "--alignment")], ids=" ".join)
@pytest.mark.usefixtures("translated")
def test_columns_of_translate_are_not_scored(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"--alignment": (" ||| ", " ||| 0-0 1-12"), "--flags": ("\t", "\tnumber", "\tshort,unsure")}
    plain, references = (Path(name).read_text("utf-8").splitlines()[:12] for name in ("out.de", "test.de"))
    plain[0] = ""
    rows = plain
    for flag in (flag for flag in columns if flag in flags):
        rows = [row + columns[flag][n % len(columns[flag])] for n, row in enumerate(rows)]
    write("ref.de", references)
    found = []
    for name, lines in (("plain.de", plain), ("columns.de", rows), ("some.de", [*rows[:-1], plain[-1]])):
        write(name, lines)
        scores, notes = evaluated(capsys, "--hyp", name, "--ref", "ref.de")
        found.append((scores, [flag for flag in flags if f"{name} has the column of `translate {flag}`" in notes]))
    assert found[1] == (found[0][0], list(flags))
    assert found[2][0] != found[0][0]
    assert found[2][1] == []


def test_columns_are_left_out_of_a_comparison(translated: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    write("columns.de", [f"{line}\tnumber" for line in translated])
    assert run_command(["compare", "columns.de", "out.de", "--data", "test.tsv", "--json"]) == 0
    answer = capsys.readouterr()
    assert "columns.de has the column of `translate --flags`, which is not scored" in answer.err
    assert json.loads(answer.out)["ties"] == len(translated)


def test_json_lines_of_translate_are_not_scored_as_text(
    translated: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write("out", [json.dumps({"src": "x", "translation": line}) for line in translated])
    assert run_command(["evaluate", "--hyp", "out", "--ref", "test.de"]) == 2
    assert "out has JSON lines, not translations. Rename it to end in .jsonl." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("start", "shift", "said"),
    [
        (75, 1, "from about line 76 to 150, line n of shifted.de belongs to line n-1 of test.de"),
        (75, -1, "from about line 76 to 149, line n of shifted.de belongs to line n+1 of test.de"),
        (0, 1, "from about line 1 to 150, line n of shifted.de belongs to line n-1 of test.de"),
    ],
)
def test_translations_that_shift_by_a_line_are_refused(
    start: int, shift: int, said: str, translated: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*translated[:start], *([""] if shift > 0 else []), *translated[start + (shift < 0) :], ""][:150]
    write("shifted.de", rows)
    test = ["--ref", "test.de"]
    assert run_command(["evaluate", "--hyp", "shifted.de", *test]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert said in answer.err
    assert run_command(["compare", "out.de", "shifted.de", "--src", "test.en", *test]) == 2
    assert said in capsys.readouterr().err
    assert run_command(["evaluate", "--hyp", "shifted.de", *test, "--no-line-check"]) == 0


def test_decomposed_letters_are_noted_and_scored_as_they_are(
    translated: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    decomposed = [unicodedata.normalize("NFD", line) for line in translated]
    write("nfd.de", decomposed)
    scores, notes = evaluated(capsys, "--hyp", "nfd.de", "--ref", "test.de")
    count = sum(line != other for line, other in zip(decomposed, translated, strict=True))
    said = f"{count} of 150 lines of nfd.de have letters with separate accents (not Unicode NFC), but 0 of test.de"
    assert said in notes
    assert "Convert this file to NFC" in notes
    references = Path("test.de").read_text("utf-8").splitlines()
    expected = score_outputs(decomposed, references, intervals=True)
    assert scores == "".join(f"{score}\n" for score in expected.scores)
    assert run_command(["compare", "out.de", "nfd.de", "--data", "test.tsv"]) == 0
    assert said.replace("test.de", "test.tsv") in capsys.readouterr().err


def test_one_file_with_both_sides_is_a_test(
    translated: list[str], model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aligned = ["--src", "test.en", "--ref", "test.de"]
    assert run_command(["evaluate", "--hyp", "out.de", "--data", "test.tsv", "--json"]) == 0
    scores = capsys.readouterr().out
    for test in (aligned, ["--src", "test.en", "--tgt", "test.de"]):
        assert evaluated(capsys, "--hyp", "out.de", *test, "--json")[0] == scores
    for command in (["compare", "out.de", "test.de"], ["score", str(model_folder)]):
        found = []
        for test in (["--data", "test.tsv"], aligned):
            assert run_command([*command, *test]) == 0
            found.append(capsys.readouterr().out)
        assert found[0] == found[1]
    for command in (["evaluate", "--hyp", "out.de"], ["compare", "out.de", "out.de"], ["score", str(model_folder)]):
        assert run_command([*command, "--data", "test.tsv", "--ref", "test.de"]) == 2
        assert "`--data` has both sides" in capsys.readouterr().err


@pytest.mark.parametrize("order", ["en-de", "de-en"])
def test_the_languages_of_a_model_choose_the_sides_of_a_file(
    order: str, translated: list[str], model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copytree(model_folder, "model")
    replace_card(Path("model"), Card(src_lang="en", tgt_lang="de"))
    sides = {name: Path(f"test.{name}").read_text("utf-8").splitlines()[:20] for name in ("en", "de")}
    write(f"x.{order}.tsv", ["\t".join(row) for row in zip(*map(sides.__getitem__, order.split("-")), strict=True)])
    write("src", sides["en"])
    write("ref", sides["de"])
    flags = ["--inference.beam-size", "1", "--json"]
    expected = evaluated(capsys, "model", "--src", "src", "--ref", "ref", *flags)[0]
    assert evaluated(capsys, "model", "--data", f"x.{order}.tsv", *flags)[0] == expected
    assert run_command(["compare", "model", "model", "--data", f"x.{order}.tsv"]) == 0


def test_terms_are_used_as_translate_does(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("test.en", ["one two three", "four five", "three"])
    write("test.de", ["eins zwei DREI", "vier fünf", "DREI"])
    write("terms.tsv", ["three\tDREI"])
    terms = ["--terms", "terms.tsv"]
    found = evaluated(capsys, str(model_folder), "--src", "test.en", "--ref", "test.de", *terms, "--json")[0]
    command = ["translate", str(model_folder), "--input", "test.en", "--output", "out", "--no-protect"]
    assert run_command([*command, *terms]) == 0
    capsys.readouterr()
    assert evaluated(capsys, "--hyp", "out", "--ref", "test.de", "--json")[0] == found
    assert "DREI" in Path("out").read_text("utf-8")
    write("terms.tsv", ["DREI\tthree"])
    said = evaluated(capsys, str(model_folder), "--src", "test.en", "--ref", "test.de", *terms)[1]
    assert "the test has none of the 1 terms in terms.tsv" in said
    assert run_command(["evaluate", "--hyp", "out", "--ref", "test.de", *terms]) == 2
    assert "`--terms` needs a model" in capsys.readouterr().err
