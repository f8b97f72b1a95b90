"""User errors that damage no file are refused in one line, before any work starts."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest

from dragoman.bundle import Card, Model, replace_card
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook

TINY = "--model.preset custom --model.d-model 16 --model.d-ff 16 --model.num-heads 2 --model.num-encoder-layers 1"
TINY += " --model.num-decoder-layers 1 --tokenizer.vocab-size 300 --train.batch-tokens 200 --train.max-steps 1"
TINY += " --train.device cpu --inference.beam-size 1 --inference.max-extra-tokens 1"
NAMES = ["Novák", "Svoboda", "Dvořák", "Černý", "Procházka", "Kučera", "Veselý", "Horák", "Němec", "Pokorný"]
CZECH = [f"Pan {name} včera večer ještě nečetl {n}. kapitolu té knížky, říká sousedka." for n, name in enumerate(NAMES)]
DUTCH = [f"Mijnheer {name} heeft gisteravond hoofdstuk {n} nog niet gelezen, zegt ze." for n, name in enumerate(NAMES)]


@pytest.fixture(scope="module")
def phrases() -> list[tuple[str, str]]:
    return list({pair.src: pair.tgt for pair in load_phrasebook().generate(seed=3, count=600)}.items())[:300]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phrases: list[tuple[str, str]]) -> Path:
    """train.en and train.de, 300 lines each, and 50 lines of Czech and Dutch."""
    monkeypatch.chdir(tmp_path)
    for side, name in enumerate(("train.en", "train.de")):
        write(name, [pair[side] for pair in phrases])
    write("test.en", [pair[0] for pair in phrases[:50]])
    write("test.cs", CZECH * 5)
    write("test.nl", DUTCH * 5)
    return tmp_path


def write(name: str, lines: Sequence[str]) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The line with which a command is refused."""
    assert run_command(command) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    return answer.err.splitlines()[-1]


@pytest.mark.usefixtures("files")
class TestTrain:
    def test_swapped_contents(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("train.de").rename("x"), Path("train.en").rename("train.de"), Path("x").rename("train.en")
        said = refused(capsys, "train", "--src", "train.en", "--tgt", "train.de", "--out", "run")
        assert "the source looks like German and the target like English: they are swapped." in said
        assert not Path("run").exists()

    def test_another_language_than_stated(self, capsys: pytest.CaptureFixture[str]) -> None:
        data = ["train", "--src", "train.en", "--tgt", "train.de", "--out", "run", *TINY.split()]
        said = refused(capsys, *data, "--tgt-lang", "cs")
        assert said.startswith(
            "dragoman: train.en and train.de: the target looks like German (de), not like Czech (cs)"
        )
        assert said.endswith("If it is right, add `--data.check-languages false`.")
        assert run_command([*data, "--tgt-lang", "cs", "--data.check-languages", "false"]) == 0
        capsys.readouterr()
        # The check may be switched off or on whenever the run continues.
        assert run_command([*data, "--tgt-lang", "Czech", "--train.max-steps", "2"]) == 0

    def test_a_test_in_another_language(self, capsys: pytest.CaptureFixture[str]) -> None:
        test = ["--data.test-src", "test.en", "--data.test-tgt", "test.cs"]
        said = refused(capsys, "train", "--src", "train.en", "--tgt", "train.de", "--out", "run", *test)
        assert "test.en and test.cs: the target looks like Czech (cs), not like German (de)" in said

    @pytest.mark.parametrize(
        ("flags", "match"),
        [
            (["--tgt-lang", "czech lang/../x"], '`data.tgt_lang` is "czech lang/../x", which is not a language'),
            (
                ["--src-lang", "Englisch", "--tgt-lang", "en"],
                "`data.src_lang` and `data.tgt_lang` are both en. Set two languages",
            ),
            (["--encoding", "latin2x"], '`data.encoding` is "latin2x", which is not a text encoding'),
            (["--columns", "2"], "`data.columns` must name two columns"),
            (["--from", "nowhere"], "nowhere does not exist. Name a model folder"),
        ],
    )
    def test_values_of_options(self, flags: list[str], match: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert match in refused(capsys, "train", "--src", "train.en", "--tgt", "train.de", "--out", "run", *flags)

    def test_ids_a_header_and_an_encoding(
        self, phrases: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = ["id\tEnglish\tGerman", *(f"{n}\t{src}\t{tgt}" for n, (src, tgt) in enumerate(phrases))]
        Path("data.tsv").write_bytes("".join(f"{row}\n" for row in rows).encode("cp1252"))
        command = ["train", "--data", "data.tsv", "--out", "run", *TINY.split()]
        assert "`--columns 2,3 --header`" in refused(capsys, *command)
        columns = ["--columns", "2,3", "--header"]
        said = refused(capsys, *command, *columns)
        assert "which is not UTF-8. Run `dragoman check` to find the encoding of the file" in said
        assert run_command(["check", "--data", "data.tsv", *columns]) == 2
        assert "`--encoding windows-1252`" in capsys.readouterr().out
        command += ["--encoding", "windows-1252"]
        assert run_command([*command, *columns]) == 0
        answer = capsys.readouterr()
        assert "300 pairs" in answer.err
        assert "en to de" in answer.err
        assert run_command([*command, "--columns", "2,3", "--header", "--train.max-steps", "2"]) == 0

    def test_check_prints_the_same_error_and_an_example(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("train.de").write_bytes(Path("train.de").read_text("utf-8").encode("iso8859_15"))
        assert run_command(["check", "train.en", "train.de"]) == 2
        report = capsys.readouterr().out
        assert "lines of train.de are not UTF-8" in report
        assert run_command(["check", "train.en", "train.de", "--encoding", "iso-8859-15"]) == 0


@pytest.mark.usefixtures("files")
class TestScores:
    @pytest.fixture
    def model(self, model_folder: Path, tmp_path: Path) -> str:
        """A model whose card names English and Czech."""
        from shutil import copytree

        folder = copytree(model_folder, tmp_path / "model")
        replace_card(folder, Card(src_lang="en", tgt_lang="cs"), Model.load(folder, "cpu").config)
        return str(folder)

    def test_a_reference_in_another_language_than_the_models(
        self, model: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write("ref", Path("test.nl").read_text("utf-8").splitlines())
        for command in (["evaluate", model], ["compare", model, model]):
            said = refused(capsys, *command, "--src", "test.en", "--ref", "ref")
            assert "ref looks like Dutch (nl), not like Czech (cs)" in said
            assert "--no-language-check" in said
        assert run_command(["evaluate", model, "--src", "test.en", "--ref", "ref", "--no-language-check"]) == 0
        assert run_command(["evaluate", model, "--src", "test.en", "--ref", "test.cs"]) == 0

    def test_translations_in_another_language_than_the_references(self, capsys: pytest.CaptureFixture[str]) -> None:
        write("out", Path("test.nl").read_text("utf-8").splitlines())
        said = refused(capsys, "evaluate", "--hyp", "out", "--ref", "test.cs")
        assert "out looks like Dutch (nl), but the references look like Czech (cs)" in said
        said = refused(capsys, "compare", "test.cs", "out", "--src", "test.en", "--ref", "test.cs")
        assert "out looks like Dutch (nl)" in said

    def test_columns_are_no_advice_for_a_memory(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        sides = [Path(name).read_text("utf-8").splitlines() for name in ("test.en", "test.nl")]
        unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="cs"><seg>{}</seg></tuv></tu>'
        units = "".join(unit.format(*map(escape, pair)) for pair in zip(*sides, strict=True))
        write("test.tmx", [f'<tmx><header srclang="en"/><body>{units}</body></tmx>'])
        said = refused(capsys, "evaluate", model, "--data", "test.tmx")
        assert "the target of test.tmx looks like Dutch (nl), not like Czech (cs)" in said

    def test_a_table_of_translations_names_its_column(self, capsys: pytest.CaptureFixture[str]) -> None:
        sides = [Path(name).read_text("utf-8").splitlines() for name in ("test.cs", "test.nl")]
        write("out.tsv", list(map("\t".join, zip(*sides, strict=True))))
        commands = ["evaluate", "--hyp", "out.tsv"], ["compare", "test.cs", "out.tsv", "--src", "test.en"]
        for command in commands:
            said = refused(capsys, *command, "--ref", "test.cs")
            assert "out.tsv looks like Dutch (nl)" in said
            assert "Name the column of the translations, `--columns 2,1`; " in said
            assert run_command([*command, "--ref", "test.cs", "--columns", "2,1"]) == 0
            assert "100.00" in capsys.readouterr().out
        write("ref.tsv", list(map("\t".join, zip(*sides[::-1], strict=True))))
        said = refused(capsys, "evaluate", "--hyp", "out.tsv", "--ref", "ref.tsv")
        assert "Name the right files; " in said, "columns would apply to both tables"

    def test_a_language_near_the_stated_one_is_a_warning(self, capsys: pytest.CaptureFixture[str]) -> None:
        write("test.sk", CZECH * 5)
        write("out", CZECH * 5)
        assert run_command(["evaluate", "--hyp", "out", "--ref", "test.sk"]) == 0
        assert (
            "warning: test.sk looks like Czech (cs), not like Slovak (sk); the two languages are similar"
            in capsys.readouterr().err
        )

    def test_sides_of_tables_and_of_our_own_json_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        rows = [f"{n}\t{src}\t{tgt}" for n, (src, tgt) in enumerate(zip(DUTCH * 5, CZECH * 5, strict=True))]
        write("test.tsv", rows)
        better = [line.replace("včera", "dnes") for line in CZECH * 5]
        write("out.cs", better)
        written = [json.dumps({"src": "x", "translation": line, "flags": []}) for line in better]
        write("out.jsonl", written)
        scores = []
        for hyp in ("out.cs", "out.jsonl"):
            for ref in ("test.cs", "test.tsv"):
                assert run_command(["evaluate", "--hyp", hyp, "--ref", ref, "--json", "--columns", "2,3"]) == 0
                scores.append(capsys.readouterr().out)
        assert scores == scores[:1] * 4
        test = ["--src", "test.tsv", "--ref", "test.tsv", "--columns", "2,3"]
        assert run_command(["compare", "out.jsonl", "test.cs", *test]) == 0
        capsys.readouterr()
        assert "column 1 holds numbers" in refused(capsys, "evaluate", "--hyp", "out.cs", "--ref", "test.tsv")
        write("short.tsv", rows[:9])
        said = refused(capsys, "evaluate", "--hyp", "out.cs", "--ref", "short.tsv", "--columns", "2,3")
        assert "out.cs has 50 texts, but short.tsv has 9. Give files of the same test." in said

    def test_other_encodings(self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        expected: Any = None
        for encoding in ("utf-8", "windows-1250"):
            Path("ref.cs").write_bytes(Path("test.cs").read_text("utf-8").encode(encoding))
            command = ["evaluate", model, "--src", "test.en", "--ref", "ref.cs", "--encoding", "windows-1250", "--json"]
            assert run_command(command) == 0
            scores = json.loads(capsys.readouterr().out)
            expected = expected or scores
            assert scores == expected


def test_a_text_as_an_argument_is_answered_with_its_flag(model_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = refused(capfd, "translate", str(model_folder), "some text")  # type: ignore[arg-type]
    assert said.endswith("some text does not exist. Name a model folder, a run of `dragoman train`, or `demo`. "
                         "To translate a text, use `--text`.")  # fmt: skip
    assert run_command(["translate", str(model_folder), "--text", "one two\nthree"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 2


def test_several_candidates_in_a_format_for_one_are_refused(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "translate", str(model_folder), "--text", "one", "--inference.n-best", "2")
    assert "`--inference.n-best` must be 1 with `--format text`, but is 2." in said


def test_input_in_another_encoding(model_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for encoding in ("utf-8", "utf-16", "iso-8859-2"):
        (tmp_path / "in").write_bytes("jedna žlutá\ndva\n".encode(encoding))
        assert (
            run_command(["translate", str(model_folder), "--input", str(tmp_path / "in"), "--encoding", encoding]) == 0
        )
        outputs.append(capfd.readouterr().out)
    assert outputs == outputs[:1] * 3


def test_terms_that_occur_in_no_line_are_reported(
    model_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "terms.tsv").write_text("Haus\thouse\nHund\tdog\n")
    command = ["translate", str(model_folder), "--terms", str(tmp_path / "terms.tsv")]
    assert run_command([*command, "--text", "The dog is in the house."]) == 0
    assert "none of the 2 terms in" in capfd.readouterr().err
    assert run_command([*command, "--text", "Der Hund."]) == 0
    assert "none of the" not in capfd.readouterr().err
