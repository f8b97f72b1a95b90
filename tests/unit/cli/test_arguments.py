from pathlib import Path

import pytest

from dragoman.cli.arguments import ArgumentParser, one_of
from dragoman.cli.main import VERBS, run_command
from dragoman.config import SETTINGS, load_config
from dragoman.errors import ConfigError


@pytest.fixture
def parser() -> ArgumentParser:
    parser = ArgumentParser("train", "dragoman train x.toml")
    parser.add_argument("config", nargs="*", type=Path, metavar="CONFIG")
    parser.add_argument("--out", metavar="RUN")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--format", type=one_of("text", "jsonl"))
    parser.add_settings(
        "data", "tokenizer", "model", "train", "validate", "inference", common=["train.seed"], without=["data.test"]
    )
    return parser


def test_hyphens_and_underscores_are_equal_in_names_but_not_in_values(parser: ArgumentParser) -> None:
    arguments = parser.parse(
        ["--train.max_steps", "5", "--train.warmup-steps=6", "--data.train_src=my_file", "--", "--a_b"]
    )
    assert arguments.overrides() == {
        "train.max_steps": "5", "train.warmup_steps": "6", "data.train_src": "my_file",
    }  # fmt: skip
    assert arguments.config == [Path("--a_b")]


def test_files_may_stand_between_flags(parser: ArgumentParser) -> None:
    arguments = parser.parse(["a.toml", "--train.max-steps", "5", "b.toml", "--json", "c_d.toml"])
    assert arguments.config == [Path("a.toml"), Path("b.toml"), Path("c_d.toml")]
    assert arguments.json


def test_negative_numbers_are_values(parser: ArgumentParser) -> None:
    with pytest.raises(ConfigError, match=r"^`--train\.max-steps` must be at least 0, but is -5\.$"):
        load_config([], parser.parse(["--train.max-steps", "-5"]).overrides())


def test_every_setting_has_a_flag_with_help(parser: ArgumentParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse(["--help-all"])
    text = capsys.readouterr().out
    for key in SETTINGS:
        assert (f"--{key.replace('_', '-')} " in text) == (key != "data.test")
    assert text.startswith("Usage: dragoman train [CONFIG ...] [flags]\n")
    assert "[default: true]" in text


def test_short_help_shows_common_settings_only(parser: ArgumentParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse(["--help"])
    text = capsys.readouterr().out
    assert "Common settings:\n  --train.seed N" in text
    assert text.count("--train.") == 1
    assert "Examples:\n  dragoman train x.toml\n" in text


@pytest.mark.parametrize("columns", [80, 99, 100, 200])
@pytest.mark.parametrize("flag", ["--help", "--help-all"])
@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal_and_100_columns(
    verb: str, flag: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run_command([verb, flag]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= min(columns, 100)
    assert "Examples:" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train.sed", "5"], "`--train.sed` is not a flag of `dragoman train`. Did you mean `--train.seed`?"),
        (["--train.lr", "1"],
         "`--train.lr` is not a flag of `dragoman train`. Dragoman calls it `--train.learning-rate`."),
        (["--zzzzz=5"], "`--zzzzz` is not a flag of `dragoman train`. See `dragoman train --help-all`."),
        (["--out"], "`--out` needs a value. See `dragoman train --help`."),
        (["--json=1"], "`--json` takes no value, but is given '1'."),
        (["--format", "txt"], '`--format` must be one of text, jsonl, but is "txt". Did you mean `text`?'),
    ],
)  # fmt: skip
def test_errors_of_argparse_are_rephrased(parser: ArgumentParser, arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parser.parse(arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("train", ["--data.train", "a.tsv", "--data.train", "b.tsv"]),
        ("plan", ["--data.train-src", "a.tsv", "--data.train_src", "b.tsv"]),
        ("translate", ["model", "--terms", "a.tsv", "--terms", "b.tsv"]),
    ],
)
def test_a_second_file_is_an_error(verb: str, given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([verb, *given]) == 2
    said = capsys.readouterr().err
    assert "must be one file, but is given twice: a.tsv and b.tsv. Leave one out, or put both into one file." in said


def test_two_names_of_a_flag_are_one_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["evaluate", "--hyp", "a", "--ref", "b", "--tgt", "c"]) == 2
    assert capsys.readouterr().err == "dragoman: `--ref` and `--tgt` are one setting. Leave one out.\n"
    assert run_command(["translate", "model", "--output", "a", "--output", "b"]) == 2
    assert "given twice: a and b. Leave one out." in capsys.readouterr().err


def test_collecting_flags_accept_several_files(tmp_path: Path) -> None:
    parser = ArgumentParser("serve")
    parser.add_argument("--terms", action="append", metavar="FILE")
    assert parser.parse(["--terms", "a.tsv", "--terms", "b.tsv"]).terms == ["a.tsv", "b.tsv"]


def test_the_last_of_several_values_counts(capsys: pytest.CaptureFixture[str]) -> None:
    same = ["--data.train", "none.tsv", "--data.train", "none.tsv"]
    assert (
        run_command(["train", *same, "--train.seed", "1", "--train.seed", "2", "--src-lang", "en", "--tgt-lang", "de"])
        == 2
    )
    assert "none.tsv does not exist" in capsys.readouterr().err


def test_a_text_file_without_a_flag_is_not_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.en").write_text("one two\n")
    assert run_command(["train", "--src", "a.en", str(tmp_path / "b.en"), "--tgt", "a.de"]) == 2
    said = capsys.readouterr().err
    assert "Each flag takes one file, and a file without a flag must be a configuration." in said
