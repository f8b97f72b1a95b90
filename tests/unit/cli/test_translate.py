import gzip
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import run_command
from dragoman.cli.translation.documents import DocumentTranslator
from dragoman.cli.translation.output import (
    NAMED,
    Notes,
    json_line,
    stream_lines,
    text_line,
    translate_windows,
)
from dragoman.cli.translation.sources import InputLines
from dragoman.config import InferenceSettings
from dragoman.errors import DataError
from dragoman.inference.translator import Translator
from dragoman.records import Candidate, Details, Preserve, Translation
from dragoman.text.documents.document import read_document
from dragoman.text.documents.markers import MarkedText
from dragoman.workflows.models import LoadedTranslator


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    def typing(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return typing


def test_each_input_line_has_one_output_line(
    model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(b"one\n\ntwo three\r\n \nfo\xffur")
    assert run_command(["translate", str(model_folder)]) == 0
    answer = capfd.readouterr()
    expected = Translator.load(model_folder).translate(["one", "", "two three", " ", "fo\ufffdur"])
    assert answer.out.split("\n") == [line.replace("\n", " ").replace("\r", " ") for line in expected] + [""]
    assert expected[1] == expected[3] == ""
    assert "dragoman: line 5 is not UTF-8; invalid bytes became U+FFFD.\n" in answer.err


def test_empty_input_has_empty_output(model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]) -> None:
    type_in(b"")
    assert run_command(["translate", str(model_folder)]) == 0
    assert capfd.readouterr() == ("", "")


def test_files_flags_and_notes(model_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("one two\n\n" + "one two three. " * 10 + "\n", encoding="utf-8")
    flags = [
        "--format=jsonl",
        "--inference.n-best",
        "2",
        "--inference.beam_size",
        "3",
        "--inference.length-penalty-alpha",
        "0",
    ]
    assert run_command(["translate", str(model_folder), "--input", str(source), "--output", str(target), *flags]) == 0
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    expected = Translator.load(model_folder).translate_detailed(
        source.read_text(encoding="utf-8").split("\n")[:-1], n_best=2, beam_size=3, length_penalty_alpha=0.0
    )
    assert [line["src"] for line in lines] == [translation.src for translation in expected]
    assert [line["segments"] for line in lines] == [translation.segments for translation in expected]
    assert len(lines[0]["candidates"]) == 2
    assert lines[0]["score"] == pytest.approx(expected[0].candidates[0].score)
    assert lines[0]["log_prob"] == pytest.approx(expected[0].candidates[0].log_prob)
    assert lines[0]["tokens"] == list(expected[0].candidates[0].tokens)
    empty = {"src": "", "translation": "", "segments": 0, "cut": False, "flags": [], "lost": [], "candidates": []}
    assert lines[1] == empty
    answer = capfd.readouterr()
    assert answer.out == ""
    assert f"line 3 is long and was split into {expected[2].segments} segments." in answer.err


def test_flags_follow_the_last_tab(model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]) -> None:
    lines = ["one two three 417", "", "one Ω"]
    expected = Translator.load(model_folder).translate_detailed(lines)
    assert ["number" in one.flags for one in expected] == [True, False, False]
    assert ["characters" in one.flags for one in expected] == [False, False, True]
    text = "".join(f"{line}\n" for line in lines).encode()
    type_in(text)
    assert run_command(["translate", str(model_folder), "--flags"]) == 0
    answer = capfd.readouterr()
    columns = [line.rpartition("\t") for line in answer.out.split("\n")[:-1]]
    assert [flags for _, _, flags in columns] == [",".join(one.flags) for one in expected]
    assert [text_line(one) for one in expected] == [text for text, _, _ in columns]
    assert "dragoman: flagged lines: " in answer.err
    assert "number 1, characters 1" in answer.err
    type_in(text)
    assert run_command(["translate", str(model_folder), "--format", "jsonl"]) == 0
    answer = capfd.readouterr()
    assert [json.loads(line)["flags"] for line in answer.out.split("\n")[:-1]] == [[*one.flags] for one in expected]
    assert "flagged" not in answer.err


def test_alignments_follow_the_translation(
    model_folder: Path, other_model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    both = [str(model_folder), str(other_model_folder)]
    for models, flags in ((both[:1], []), (both, []), (both[:1], ["--format", "jsonl"])):
        type_in(b"one two\n\nthree. four five\n")
        assert run_command(["translate", *models, "--alignment", *flags]) == 0
        lines = capfd.readouterr().out.split("\n")[:-1]
        expected = Translator.load_ensemble(models).translate_detailed(
            ["one two", "", "three. four five"], details=Details(alignment=True)
        )
        if flags:
            assert [json.loads(line)["alignment"] for line in lines] == [list(map(list, t.alignment)) for t in expected]
        else:
            shown = [" ".join(f"{i}-{j}" for i, j in t.alignment) for t in expected]
            assert lines == [
                f"{text_line(replace(t, alignment=None))} ||| {links}" for t, links in zip(expected, shown, strict=True)
            ]
            assert lines[1] == " ||| "


def test_several_models_are_an_ensemble(
    model_folder: Path, other_model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(b"one two\nthree\n")
    assert run_command(["translate", str(model_folder), str(other_model_folder), "--format", "jsonl"]) == 0
    scores = [json.loads(line)["score"] for line in capfd.readouterr().out.splitlines()]
    together = Translator.load_ensemble([model_folder, other_model_folder]).translate_detailed(["one two", "three"])
    assert scores == pytest.approx([translation.candidates[0].score for translation in together])


def test_prefixes_are_kept(model_folder: Path, tmp_path: Path, type_in: Any, capfd: pytest.CaptureFixture[str]) -> None:
    prefixes = tmp_path / "prefixes"
    prefixes.write_text("four\n\n five\n", encoding="utf-8")
    type_in(b"one\ntwo\nthree\n")
    assert run_command(["translate", str(model_folder), "--prefix", str(prefixes)]) == 0
    lines = capfd.readouterr().out.split("\n")
    assert lines[0].startswith("four")
    assert lines[2].startswith(" five")


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ("a\nb\n", "prefixes has only 2 lines, fewer than standard input."),
        ("a\nb\nc\n\n", "prefixes has more lines than standard input, which has 3."),
        (None, "prefixes does not exist."),
    ],
)
def test_too_few_or_too_many_prefixes_are_an_error(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_in: Any,
    capfd: pytest.CaptureFixture[str], prefixes: str | None, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if prefixes is not None:
        Path("prefixes").write_text(prefixes, encoding="utf-8")
    type_in(b"one\ntwo\nthree\n")
    assert run_command(["translate", str(model_folder), "--prefix", "prefixes"]) == 2
    assert f"dragoman: {message}" in capfd.readouterr().err


def test_input_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_text("precious\n")
    assert run_command(["translate", "m", "--input", str(text), "--output", str(text)]) == 2
    assert f"`--input` is {text}, which `--output` {text} would replace." in capfd.readouterr().err
    with text.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert run_command(["translate", "m", "--output", str(text)]) == 2
    assert f"standard input is {text}, which `--output` {text} would replace." in capfd.readouterr().err
    part = text.rename(tmp_path / "out.part")
    assert run_command(["translate", "m", "--input", str(part), "--output", str(tmp_path / "out")]) == 2
    assert f"`--input` is {part}, which `--output` {tmp_path / 'out'} would replace." in capfd.readouterr().err
    text = part
    assert text.read_text() == "precious\n"


def test_a_missing_package_is_one_line_before_any_work(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "in").write_text("one two\n")
    files = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert run_command(["translate", str(model_folder), *files, "--cluster", "local"]) == 2
    said = capfd.readouterr().err
    assert "the package ray" in said
    assert re.search(r"Run `pip install '\.\[cluster\]'` in the checkout of Dragoman\.$", said)
    assert said.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["in"]


def test_a_text_instead_of_a_model_is_one_short_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("A sentence of a private text.\n" * 900)
    assert run_command(["translate", str(tmp_path / "text")]) == 2
    said = capfd.readouterr().err
    assert said.endswith(
        "text does not lead to a model folder. Name a model folder, or a run of `dragoman train`. "
        "To translate a text file, use `--input`.\n"
    )
    assert len(said) < 300


def test_missing_model_and_input_are_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["translate", str(tmp_path / "nowhere")]) == 2
    assert run_command(["translate", "m", "--input", str(tmp_path / "nowhere")]) == 2
    assert run_command(["translate", "m", "--input", str(tmp_path)]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(str(tmp_path) in line for line in lines)


@dataclass
class Recorder:
    """A translator that returns the text itself and records its calls."""

    first_numbers: list[int] = field(default_factory=list)

    def translate_detailed(
        self, texts: list[str], preserve: Preserve, details: Details, prefixes: list[str] | None, first_number: int
    ) -> list[Translation]:
        self.first_numbers.append(first_number)
        return [Translation(text, (Candidate(text, (), (), 0.0, 0.0),), 1, cut=text == "cut") for text in texts]


def _translate(recorder: Recorder, source: InputLines) -> list[str]:
    windows = translate_windows(source, LoadedTranslator(recorder), Notes(), Preserve(), Details())
    return [translation.text for window in windows for translation in window]


def _windows(content: bytes) -> Recorder:
    recorder = Recorder()
    answers = _translate(recorder, InputLines(io.BytesIO(content), "x"))
    assert answers == content.decode().split("\n")[:-1]
    return recorder


def test_each_line_keeps_its_number() -> None:
    content = b"a\n" * 5000
    assert _windows(content).first_numbers == [0, 4096]


def test_cut_translations_are_reported_with_their_line(capfd: pytest.CaptureFixture[str]) -> None:
    _windows(b"a\ncut\n")
    assert capfd.readouterr().err.startswith("dragoman: the translation of line 2 was cut at the limit.")


def test_repeated_notes_are_printed_a_few_times_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    lines = [Translation(f"{n}", (Candidate("x", (), (), 0.0, 0.0),), 1 + (n == 3), cut=n > 0) for n in range(1001)]
    with Notes() as notes:
        for number, translation in enumerate(lines):
            notes.line(number, translation)
    said = capfd.readouterr().err.splitlines()
    named = [line for line in said if "was cut at the limit. Raise" in line]
    assert [line.split()[5] for line in named] == [str(number) for number in range(1, NAMED + 1)]
    assert "dragoman: line 3 is long and was split into 2 segments." in said
    assert said[-2:] == [
        "dragoman: further notes of this kind are only counted.",
        "dragoman: in total, 1,000 translations were cut at the limit (`cut` in `--format jsonl`).",
    ]


def test_output_is_one_line_for_any_model_output() -> None:
    translation = Translation("a", (Candidate("x\ny\r\nz\rü\u2028", ("x",), (-1.0,), -1.5, -1.0),), 1, cut=False)
    assert text_line(translation) == "x y z ü\u2028"
    assert json.loads(json_line(translation))["translation"] == "x y z ü\u2028"
    assert "\n" not in json_line(translation)


def test_prefix_errors_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^p has only 1 line, fewer than x\."):
        _translate(Recorder(), InputLines(io.BytesIO(b"1\n2\n"), "x", "p", iter(["a"])))


def test_the_old_output_stays_until_all_is_translated(
    model_folder: Path, tmp_path: Path, type_in: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.text.lines._BUFFER_BYTES", 4096)
    output, part = tmp_path / "out", tmp_path / "out.part"
    output.write_text("precious\n")
    link = tmp_path / "link"
    link.symlink_to("out")
    packed = gzip.compress(b"one\n" * 100 + b"\n" * 20_000)
    type_in(packed[:-9])
    assert run_command(["translate", str(model_folder), "--inference.beam-size", "1", "--output", str(link)]) == 2
    assert output.read_text() == "precious\n"
    lines = part.read_text().split("\n")
    assert lines.pop() == ""
    said = capfd.readouterr().err.splitlines()
    assert said[-2] == f"dragoman: the finished part of the translation is in {part}."
    assert said[-1].startswith("dragoman: standard input is a damaged or truncated gzip file")
    type_in(packed)
    assert run_command(["translate", str(model_folder), "--inference.beam-size", "1", "--output", str(link)]) == 0
    assert not part.exists()
    assert link.is_symlink()
    translations = output.read_text().split("\n")
    assert len(translations) == 20_101
    assert translations[: len(lines)] == lines
    assert lines


def test_utf16_is_refused(model_folder: Path, tmp_path: Path, type_in: Any, capfd: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "in"
    text.write_bytes("one\n".encode("utf-16"))
    output = tmp_path / "out"
    assert run_command(["translate", "no model", "--input", str(text), "--output", str(output)]) == 2
    assert f"{text} is UTF-16, but UTF-8 is expected." in capfd.readouterr().err
    type_in(text.read_bytes())
    assert run_command(["translate", str(model_folder), "--output", str(output)]) == 2
    assert "standard input is UTF-16, but UTF-8 is expected." in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == [text]


def test_pipes_are_read_once(model_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = (
        f"echo one | {sys.executable} -m dragoman translate {model_folder} --prefix <(echo four) --terms <(echo) "
        f"--output >(cat)"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:4]) == (0, "four")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_device_is_named(model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]) -> None:
    type_in(b"one\n")
    assert run_command(["translate", str(model_folder), "--output", "/dev/full"]) == 2
    assert "dragoman: /dev/full could not be written: no space left" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("closed", "message"),
    [
        ("<&-", "standard input is closed. Redirect a file to it, or name one with `--input`."),
        (">&-", "standard output is closed. Redirect it to a file, or to /dev/null."),
        (">&- 2>&-", ""),
    ],
)
def test_closed_streams_are_one_line(model_folder: Path, closed: str, message: str) -> None:
    command = f"{sys.executable} -m dragoman translate {model_folder} {closed}"
    done = subprocess.run(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, f"dragoman: {message}\n" if message else "")


def test_a_closed_pipe_ends_the_command_quietly(model_folder: Path) -> None:
    command = f"yes one | head -6000 | {sys.executable} -m dragoman translate {model_folder} --inference.beam-size 1"
    shell = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"], capture_output=True, check=False, timeout=120
    )
    assert shell.stdout.count(b"\n") == 1
    assert b"Traceback" not in shell.stderr
    assert b"Broken" not in shell.stderr


def test_protected_spans_and_terms_are_kept(
    model_folder: Path, tmp_path: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "terms.tsv").write_text("two\tZwei\n", encoding="utf-8")
    type_in(b"one {a} two\none two\n")
    flags = ["--terms", str(tmp_path / "terms.tsv"), "--format", "jsonl"]
    assert run_command(["translate", str(model_folder), *flags]) == 0
    first, second = (json.loads(line) for line in capfd.readouterr().out.splitlines())
    assert first["translation"].count("{a}") == 1
    assert "Zwei" in first["translation"]
    assert "Zwei" in second["translation"]
    assert first["lost"] == []
    type_in(b"one {a} two\n")
    assert run_command(["translate", str(model_folder), "--no-protect"]) == 0
    assert "{a}" not in capfd.readouterr().out


def test_icu_messages_are_kept_whole(model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]) -> None:
    messages = [
        "{count, plural, one {# file} other {# files}}",
        "{0}",
        "{price, number, currency}",
        "{who, select, female {her {n, plural, one {car} other {# cars}}} other {the '{' brace}}",
    ]
    type_in("\n".join(f"one {message} two" for message in messages).encode())
    assert run_command(["translate", str(model_folder), "--format", "jsonl"]) == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [answer["translation"].count(message) for answer, message in zip(answers, messages, strict=True)] == [1] * 4
    assert [answer["lost"] for answer in answers] == [[]] * 4
    type_in(f"one {messages[0]} two\n".encode())
    assert run_command(["translate", str(model_folder), "--no-protect", "--flags"]) == 0
    assert "tag" in capfd.readouterr().out.rpartition("\t")[2]


@pytest.mark.parametrize(
    ("kind", "content", "kept"),
    [
        (
            "html",
            "<p class='a'>one <b>two</b></p>\n<pre>one</pre>\n",
            r"<p class='a'>.*<b>.*</b>.*</p>\n<pre>one</pre>\n",
        ),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\none\n", r"1\n00:00:01,000 --> 00:00:02,000\n.*\n"),
    ],
)
def test_whole_files(
    model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str], kind: str, content: str, kept: str
) -> None:
    type_in(content.encode())
    assert run_command(["translate", str(model_folder), "--format", kind]) == 0
    assert re.fullmatch(kept, capfd.readouterr().out)


def test_flags_that_whole_files_do_not_support(
    model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(b"<p>\xff</p>")
    assert run_command(["translate", str(model_folder), "--format", "html"]) == 2
    assert run_command(["translate", str(model_folder), "--format", "srt", "--alignment"]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert "standard input line 1 has 0xff, which is not UTF-8. Save the file as UTF-8, or name" in said.err
    assert "`--format srt` and `--alignment` must not both be given. Leave one out." in said.err


def test_streamed_words_are_the_translation(
    model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    content = b"one\n\ntwo three\r\nsee www.example.org\nONE TWO THREE\n" + b"one two three. " * 10 + b"\nfo\xffur"
    answers = []
    for flags in ([], ["--stream"]):
        type_in(content)
        assert run_command(["translate", str(model_folder), *flags]) == 0
        answers.append(capfd.readouterr())
    assert answers[0] == answers[1]
    assert "line 6 is long and was split into" in answers[1].err


def test_each_streamed_word_is_written_at_once(model_folder: Path) -> None:
    written: list[bytes] = []

    class Output(io.BytesIO):
        def flush(self) -> None:
            written.append(self.getvalue())

    translator = Translator.load(model_folder)
    translator.settings = InferenceSettings(beam_size=1)
    model = LoadedTranslator(translator)
    stream_lines(InputLines(io.BytesIO(b"one two\nthree\n"), "input"), Output(), model, Notes(), Preserve())
    assert len(written) > 3
    assert all(later.startswith(earlier) for earlier, later in pairwise(written))


@pytest.mark.parametrize(
    "others",
    ["--output out", "--prefix p", "--alignment", "--flags", "--format jsonl", "--cluster auto --input i --output o"],
)
def test_flags_that_do_not_stream(others: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["translate", str(tmp_path), "--stream", *others.split()]) == 2
    assert "dragoman: `--stream` and `--" in capfd.readouterr().err


class Losing:
    """A translator that loses a part of every text, and is cut off for texts with a "two"."""

    def translate_marked(self, sources: list[MarkedText], *_: Any, **__: Any) -> list[Translation]:
        return [
            Translation(one.text, (Candidate("x", (), (), 0.0, 0.0),), 2, cut="two" in one.text, lost=("{a}", "Zwei"))
            for one in sources
        ]


@pytest.mark.parametrize(
    ("kind", "content"),
    [("html", "<p>one {a} two</p><p>%s</p>"), ("srt", "1\n00:00:01,000 --> 00:00:02,000\none {a} two\n%s\n")],
)
def test_lost_spans_in_whole_files_are_reported(kind: str, content: str, capfd: pytest.CaptureFixture[str]) -> None:
    long = "one " * 30
    document = read_document((content % long).encode(), "x", kind)
    DocumentTranslator(LoadedTranslator(Losing()), Preserve(by_sentence=True)).translate(document)
    said = capfd.readouterr().err.splitlines()
    text = "one {a} two" if kind == "html" else f"one {{a}} two {long}"[:59] + "…"
    assert said[:2] == [
        f"dragoman: the translation of '{text}' was cut at the limit. Raise `--inference.max-extra-tokens`.",
        f"dragoman: the translation of '{text}' lost or repeated '{{a}}', 'Zwei'.",
    ]
    assert [line[:50] for line in said[2:]] == ["dragoman: the translation of 'one one one one one "] * (kind == "html")


def test_cut_translations_of_a_page_are_reported(
    model_folder: Path, type_in: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(b"<p>one <b>two</b></p>")
    assert run_command(["translate", str(model_folder), "--format", "html", "--inference.max-extra-tokens", "1"]) == 0
    assert "dragoman: the translation of 'one two' was cut at the limit." in capfd.readouterr().err


def test_a_loop_is_named_without_advice_for_longer_output(capsys: pytest.CaptureFixture[str]) -> None:
    looping = Candidate("red red red red red red red red", (), (), -1.0, -1.0)
    with Notes() as notes:
        notes.line(3, Translation("ein rotes Auto", (looping,), 1, cut=True))
    said = capsys.readouterr().err
    assert "the translation of line 3 was cut at the limit, because it repeats itself" in said
    assert "max-extra-tokens" not in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--inference.precision float32", "machine code translates in float32"),
        ("--inference.sample", "torch translates in float32: machine code does not support `inference.sample`"),
        ("MODEL", "torch translates in float32: machine code does not support an ensemble of models"),
    ],
)
def test_verbose_tells_which_engine_translates_and_why(
    flags: str, said: str, model_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    others = flags.replace("MODEL", str(model_folder)).split()
    command = ["translate", str(model_folder), *others, "--text", "one", "--device", "cpu", "--verbose"]
    assert run_command(command) == 0
    lines = capfd.readouterr().err.splitlines()
    assert f"dragoman: {said}" in [re.sub(r"(bfloat16|int\d+)", "float32", line) for line in lines]
