import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dragoman
from dragoman.cli import main as command_line
from dragoman.errors import DataError

BAD_COMMANDS = {
    "summary --src-vocab-size 100 --tgt-vocab-size 200": "`--src-vocab-size` and `--tgt-vocab-size` must be equal",
    "summary --tgt-vocab-size 400 --src-vocab-size 300": "`--src-vocab-size` and `--tgt-vocab-size` must be equal",
    "trnslate": "`trnslate` is not a verb of dragoman. Did you mean `translate`?",
    "qqq": "`qqq` is not a verb of dragoman. See `dragoman --help`.",
    "--verison": "`--verison` is not a verb of dragoman.",
    "translate": "MODEL is missing. See `dragoman translate --help`.",
    "translate m --inptu x": "`--inptu` is not a flag of `dragoman translate`. Did you mean `--input`?",
    "translate m --input": "`--input` needs a value. See `dragoman translate --help`.",
    "translate m --format xml": '`--format` must be one of text, jsonl, html, srt, docx, odt, but is "xml".',
    "translate m --format jsnl": "`--format` must be one of text, jsonl, html, srt, docx, odt, but is "
    '"jsnl". Did you mean `jsonl`?',
    "translate m --inference.beam-sise 3": "`--inference.beam-sise` is not a flag of `dragoman translate`. "
    "Did you mean `--inference.beam-size`?",
    "translate m --inference.beam_size 0": "`--inference.beam-size` must be at least 1, but is 0.",
    "translate m --inference.beam-size=many": '`--inference.beam-size` must be a whole number, but is "many".',
    "translate m --inference.length-penalty-alpha nan": "`--inference.length-penalty-alpha` must be a finite number, "
    "but is nan.",
    "translate m --inference.sample maybe": '`--inference.sample` must be true or false, but is "maybe".',
    "translate m --help=x": "`--help` takes no value, but is given 'x'.",
    "translate m -x": "`-x` is not a flag of `dragoman translate`.",
    "translate m --piece-lines 3": "`--piece-lines` has no effect without `--cluster`.",
    "translate m --input=": "`--input` is empty. Name a file.",
    "translate m --output=": "`--output` is empty. Name a file.",
    "train --out= --data d.tsv": "`--out` is empty. Name a file.",
    "train --from= --data d.tsv": "`--from` is empty. Name a file.",
    "train --out bad\udcff --data d.tsv": '`--out` must be a name in UTF-8, but is "bad\\udcff". Rename the file.',
    "train --data d.tsv --data.train e.tsv": "`--data` and `--data.train` are one setting, but are d.tsv and e.tsv.",
    "train --src-lang en --data.src-lang fr": "`--src-lang` and `--data.src-lang` are one setting, but are en and fr.",
    "train --data d.tsv --train.learning-rate -1e-3": "`--train.learning-rate` must be greater than 0, but is -0.001.",
    "train --data d.tsv --train.learning-rate -inf": "`--train.learning-rate` must be a finite number, but is -inf.",
    "summary --src-vocab-size 99999999999": "`--src-vocab-size` must be at most 10000000, but is",
    "verify m --steps x": "`--steps` must be a whole number of at least 0, but is",
    "demo --train.max-steps -5": "`--train.max-steps` must be at least 0, but is -5.",
    "demo --train.schedule cosine": "`train.max_steps` must not be 0 if `train.schedule` is",
    "demo --minutes x": '`--minutes` must be a number, but is "x".',
    "train --src s --tgt t --model.num-heads 3": "`model.d_model` must be a multiple of `--model.num-heads` (3), but "
    "is 128. Change one of them.",
    "evaluate --hyp h --ref r --inference.beam-size 2": "`--inference.beam-size` needs a model, but "
    "`--hyp` is given. Leave one out.",
    "evaluate --hyp /dev/null --ref /dev/null": "`--hyp` and `--ref` must not be the same file, but both are "
    "/dev/null.",
    "evaluate": "`--ref` is missing.",
    "compare a b": "`--src`, `--ref` are missing.",
    "evaluate --hyp h --ref": "`--ref` needs a value.",
    "evaluate m n --src s --ref r": "`n` is one argument too many.",
    "evaluate --ref r": "MODEL with `--src`, or `--hyp`, is missing.",
    "evaluate m --ref r": "`--src` is missing.",
    "evaluate m --hyp h --ref r": "MODEL and `--hyp` must not both be given.",
    "evaluate --hyp nowhere.txt --ref r": "nowhere.txt does not exist.",
}


def test_flags_are_checked_against_the_settings_of_the_model(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        command_line.run_command(["translate", str(model_folder), "--format", "jsonl", "--inference.n-best", "7"]) == 2
    )
    assert "`--inference.n-best` must be at most `inference.beam_size` (2), but is 7." in capsys.readouterr().err


@pytest.mark.parametrize(("command", "message"), BAD_COMMANDS.items(), ids=range(len(BAD_COMMANDS)))
def test_a_bad_command_prints_one_line_and_exits_with_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.run_command(command.split()) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith("dragoman: " + message), answer.err
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def _run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dragoman", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, **options)


def test_summary_ties_embeddings_and_notes_the_default_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run_command(["summary", "--tokenizer.joint", "false", "--json"]) == 0
    answer = capsys.readouterr()
    assert json.loads(answer.out)["model"]["tie"] == "decoder"
    assert "the size of the model is not given" in answer.err
    assert command_line.run_command(["summary", "--model.preset", "tiny", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_help_and_version_go_to_stdout() -> None:
    answer = _run("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert all(f"  {verb} " in answer.stdout for verb in command_line.VERBS)
    answer = _run("--version")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"dragoman {dragoman.__version__}\n", "")


def test_without_a_verb_help_goes_to_stderr() -> None:
    answer = _run()
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", command_line.help_text())


@pytest.mark.parametrize("verb", command_line.VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run_command([verb, "--help"]) == 0
    assert f"Usage: dragoman {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["translate", "--help"], ["evaluate", "--help"]])
def test_help_does_not_import_torch(arguments: list[str]) -> None:
    program = (
        "import sys; from dragoman.__main__ import main; code = main(sys.argv[1:]); "
        "sys.exit('torch was imported' if 'torch' in sys.modules else code)"
    )
    answer = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(("arguments", "codes"), [(["--help"], {141}), (["translate", "--help"], {0, 141})])
def test_closed_pipe_ends_quietly(arguments: list[str], codes: set[int]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "dragoman", *arguments]
    answer = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert answer.stderr == b""
    assert answer.returncode in codes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "dragoman", "--help"]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith(b"dragoman: no disk space is left")
    assert answer.stderr.count(b"\n") == 1


class OutOfMemoryError(RuntimeError):
    """An error with the name of torch's."""


def _raising(error: BaseException) -> Callable[[str], SimpleNamespace]:
    def build_parser() -> None:
        raise error

    return lambda name: SimpleNamespace(build_parser=build_parser, run=None)


ENDS: list[tuple[BaseException, int, str]] = [
    (DataError("two\nlines"), 2, "dragoman: two lines\n"),
    (KeyboardInterrupt(), 130, ""),
    (SystemExit(0), 0, ""),
    (MemoryError(), 2, "dragoman: out of memory. Lower `inference."),
    (OutOfMemoryError("CUDA out of memory"), 2, "dragoman: out of memory. Lower `inference."),
    (
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        2,
        "dragoman: out of memory. Lower `inference.",
    ),
    (OSError(errno.ENOSPC, "No space left on device", "run/x"), 2, "dragoman: no disk space is left for run/x. "),
    (
        PermissionError(errno.EACCES, "Permission denied", "run/x"),
        2,
        "dragoman: run/x: Permission denied. Check the path and its permissions.\n",
    ),
]


@pytest.mark.parametrize(("error", "code", "line"), ENDS)
def test_exceptions_become_an_exit_code_and_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    monkeypatch.setattr("dragoman.cli.main.importlib.import_module", _raising(error))
    monkeypatch.setattr(command_line, "_abandon_stdout", lambda: None)
    assert command_line.run_command(["translate"]) == code
    assert capfd.readouterr().err.startswith(line)


@pytest.mark.parametrize(("verb", "advice"), [("train", "Lower `train.micro"), ("import", "Use a smaller")])
def test_advice_for_too_little_memory_is_that_of_the_verb(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, advice: str
) -> None:
    monkeypatch.setattr("dragoman.cli.main.importlib.import_module", _raising(MemoryError()))
    assert command_line.run_command([verb]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"dragoman: out of memory. {advice}")
    assert verb == "train" or "micro_batch_tokens" not in said


def test_an_old_name_of_a_setting_prints_one_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text("[train]\nworkers = 2\n", encoding="utf-8")
    command = ["summary", str(tmp_path / "old.toml"), "--model.preset", "tiny", "--json"]
    for _ in range(2):
        assert command_line.run_command(command) == 0
        assert capsys.readouterr().err == (
            f"dragoman: `train.workers` is now `train.threads`; {tmp_path / 'old.toml'} still has the old name.\n"
        )


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.cli.main.importlib.import_module", _raising(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        command_line.run_command(["translate"])


@pytest.mark.parametrize(("flags", "rows"), [("--model.tie none", 8000), ("--model.tie all", 400)])
def test_one_vocabulary_size_applies_to_both_sides_if_they_are_tied(
    flags: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run_command(["summary", "--tgt-vocab-size", "400", *flags.split(), "--json"]) == 0
    tensors = json.loads(capsys.readouterr().out)["tensors"]
    assert tensors[0]["name"] == "src_embedding.weight"
    assert tensors[0]["shape"][0] == rows
