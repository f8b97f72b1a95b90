"""What `dragoman translate` reads, tested with a model that repeats its source."""

import gzip
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.bundle import Model
from dragoman.cli.main import run_command
from dragoman.config import InferenceSettings
from dragoman.engines.interface import Source
from dragoman.inference.translator import Translator
from dragoman.records import Hypothesis
from dragoman.workflows.models import LoadedTranslator

TMX = (
    '<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'.format(
        "".join(
            f'<tu><tuv xml:lang="de"><seg>{tgt}</seg></tuv><tuv xml:lang="en"><seg>{src}</seg></tuv></tu>'
            for src, tgt in (("One &amp; two.", "Eins."), ("Three.", "Drei."))
        )
    )
    + "\n"
)
PO = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n\nmsgid "Hello"\nmsgstr "Hallo"\n'
XLIFF = '<?xml version="1.0"?>\n<xliff version="1.2"><file/></xliff>\n'
PAGE = "<!DOCTYPE html>\n<html><p>one</p></html>\n"
SUBTITLES = "1\n00:00:01,000 --> 00:00:02,000\none\n"
GERMAN = "Der alte Mann ging am Morgen langsam über die Brücke in die Stadt und kaufte frisches Brot für seine Kinder."


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch, small_bundle: Model) -> list[str]:
    """The languages of the model, which repeats its source and is unsure of it."""
    codes = ["en", "de"]

    def search(sources: Sequence[Source], settings: InferenceSettings) -> list[list[Hypothesis]]:
        repeated = [Hypothesis(tuple(one.ids), (-2.0,) * (len(one.ids) + 1), -1.0, -1.0, True) for one in sources]
        return [[one] if one.ids else [] for one in repeated]

    def load(request: Any, progress: Any) -> LoadedTranslator:
        translator = Translator(SimpleNamespace(search=search), small_bundle.tokenizers, InferenceSettings(), 200)
        return LoadedTranslator(translator, *codes)

    monkeypatch.setattr("dragoman.cli.translate.load_model", load)
    return codes


def type_in(monkeypatch: pytest.MonkeyPatch, content: bytes, is_terminal: bool = False) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr(stdin, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)


def translated(path: Path, content: str, *flags: str, capfd: pytest.CaptureFixture[str]) -> str:
    """The output for a file of this content."""
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    assert run_command(["translate", "model", "--input", str(path), *flags]) == 0
    return capfd.readouterr().out


def refused(*arguments: str, capfd: pytest.CaptureFixture[str]) -> str:
    """The line on standard error."""
    assert run_command(["translate", "model", *arguments]) == 2
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    return said.err


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("pairs.tsv", "One & two.\tEins.\nThree.\tDrei.\n", []),
        ("pairs.TSV.gz", "One & two.\tEins.\nThree.\tDrei.\n", []),
        ("pairs.tsv", "English\tGerman\nOne & two.\tEins.\nThree.\tDrei.\n", ["--header"]),
        ("pairs.txt", "Eins.\tOne & two.\nDrei.\tThree.\n", ["--columns", "2,1"]),
        ("pairs.csv", 'nr,en,de\n1,One & two.,"Eins, zwei."\n2,Three.,Drei.\n', ["--columns", "en,de"]),
        ("pairs.csv", "nr;text\n1;One & two.\n2;Three.\n", ["--columns", "text"]),
        ("pairs.jsonl", '{"de": "Eins.", "en": "One & two."}\n{"de": "Drei.", "en": "Three."}\n', []),
        ("pairs.jsonl", '{"id": 7, "text": "One & two."}\n{"id": 8, "text": "Three."}\n', ["--columns", "text"]),
        ("pairs.json", '[\n["One & two.", "Eins."],\n["Three.", "Drei."]\n]\n', []),
        ("pairs.jsonl", '{"en": "One & two.", "de": null}\n{"en": "Three."}\n', []),
        ("pairs.jsonl", '{"id": 7, "text": "One & two."}\n{"id": 8, "text": "Three."}\n', []),
        ("memory.tmx", TMX, []),
        ("memory.tmx.gz", TMX, []),
        ("memory.tmx", TMX.replace("<tuv", '<tuv xml:lang="en-GB"><seg>Other.</seg></tuv><tuv', 1), []),
    ],
)
def test_the_source_side_of_pairs_is_translated(
    name: str, content: str, flags: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert translated(tmp_path / name, content, *flags, capfd=capfd) == "One & two.\nThree.\n"


def test_general_codes_of_a_file_match_the_regional_ones_of_the_model(
    languages: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    languages[:] = "en-US", "de-AT"
    records = '{"de": "Eins.", "en": "One & two."}\n{"de": "Drei.", "en": "Three."}\n'
    nested = "".join(f'{{"translation": {record}}}\n' for record in records.splitlines())
    for name, content in (("memory.tmx", TMX), ("flat.jsonl", records), ("nested.jsonl", nested)):
        assert translated(tmp_path / name, content, capfd=capfd) == "One & two.\nThree.\n", name
    exact = TMX.replace('"en"', '"en-US"').replace("<tu>", '<tu><tuv xml:lang="en"><seg>Other.</seg></tuv>')
    assert translated(tmp_path / "exact.tmx", exact, capfd=capfd) == "One & two.\nThree.\n"
    other = tmp_path / "other.tmx"
    other.write_text(TMX.replace('"en"', '"en-GB"'), encoding="utf-8")
    assert "no unit with both en-US and de-AT" in refused("--input", str(other), capfd=capfd)


@pytest.mark.usefixtures("languages")
def test_advice_about_a_wrong_source_leads_to_the_source(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    english = "The old man went slowly over the bridge into the town this morning and bought fresh bread for them."
    units = f'<tu><tuv xml:lang="en"><seg>{GERMAN}</seg></tuv><tuv xml:lang="de"><seg>{english}</seg></tuv></tu>' * 20
    for name, content in (
        ("a.tsv", f"{GERMAN}\t{english}\n" * 20),
        ("a.csv", f'nr,a,b\n1,"{GERMAN}","{english}"\n' + f'2,"{GERMAN}","{english}"\n' * 20),
        ("a.jsonl", json.dumps({"source": GERMAN, "target": english}) + "\n"),
        ("a.tmx", f'<tmx><header srclang="en"/><body>{units}</body></tmx>'),
    ):
        given = ["--columns", "2,3", "--header"] if name == "a.csv" else []
        (tmp_path / name).write_text(content * (20 if name == "a.jsonl" else 1), encoding="utf-8")
        if given:
            assert run_command(["translate", "model", "--input", str(tmp_path / name), *given]) == 0
            assert "warning: the source side" in capfd.readouterr().err
            continue
        for flags in ([], ["--src-lang", "en"] if name == "a.tsv" else []):
            said = refused("--input", str(tmp_path / name), *flags, capfd=capfd)
            assert "looks like German (de), but the model translates from English (en)" in said
        advice = said.rpartition("Name the source: `")[2].partition("`")[0].split()
        assert run_command(["translate", "model", "--input", str(tmp_path / name), *advice]) == 0
        answer = capfd.readouterr()
        assert (answer.out, answer.err) == (f"{english}\n" * 20, ""), name


def test_a_source_in_a_third_language_is_a_warning(
    languages: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    languages[:] = "en", "fr"
    (tmp_path / "a.tsv").write_text(f"{GERMAN}\tMatin.\n" * 20, encoding="utf-8")
    assert run_command(["translate", "model", "--input", str(tmp_path / "a.tsv")]) == 0
    said = capfd.readouterr().err
    assert said.endswith("a.tsv looks like German (de), but the model translates from English (en)\n")


@pytest.mark.usefixtures("languages")
def test_swapped_columns_are_swapped_back_by_the_advice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("English;German\nOne.;Eins.\n", encoding="utf-8")
    for columns, advice in (("2,1", "1,2"), ("German,English", "English,German")):
        said = refused("--input", str(path), "--header", "--columns", columns, capfd=capfd)
        assert f"`--columns {advice}`" in said
        assert translated(path, path.read_text(), "--header", "--columns", advice, capfd=capfd) == "One.\n"


@pytest.mark.usefixtures("languages")
def test_lines_of_text_with_tabs_stay_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("text.en", "text.txt", "text"):
        content = "one\ttwo three\tfour\n\n\tfive\n{six}\n<seven>\n"
        assert translated(tmp_path / name, content, capfd=capfd) == "one two three four\n\nfive\n{six}\n<seven>\n"
    assert translated(tmp_path / "a.tsv", "one\ttwo\n", "--format", "text", capfd=capfd) == "one two\n"


@pytest.mark.usefixtures("languages")
def test_a_tab_is_a_known_character(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["translate", "model", "--text", "one\ttwo three", "--format", "jsonl"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["src"], answer["translation"]) == ("one\ttwo three", "one two three")
    assert "characters" not in answer["flags"]


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize(
    ("name", "content", "named", "advice"),
    [
        ("a.po", PO, "messages of a program (PO)", "dragoman serve"),
        ("a.txt", PO, "messages of a program (PO)", "dragoman serve"),
        ("a.xlf", XLIFF, "XLIFF", "Weblate"),
        ("a.dat", XLIFF, "XLIFF", "Weblate"),
        ("a.doc", "x", "an old Office document, or one with a password", "soffice --convert-to docx"),
        ("a.docx", "%PDF-1.4", "a PDF file", "soffice --infilter=writer_pdf_import --convert-to docx"),
        ("a.xlsx", "x", "a spreadsheet", ".csv"),
        ("a.xml", "<a>one</a>", "XML", "translate_xml"),
        ("a.data", TMX, "a translation memory (TMX)", ".tmx"),
        ("a.en", '{"en": "One.", "de": "Eins."}\n', "JSON lines", ".jsonl"),
    ],
)
def test_other_formats_are_refused_by_name(
    name: str, content: str, named: str, advice: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    said = refused("--input", str(path), "--output", str(tmp_path / "out"), capfd=capfd)
    assert f"{path} holds {named}, not lines of text. " in said
    assert advice in said
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize(
    ("content", "named"),
    [(PO, "(PO)"), (XLIFF, "XLIFF"), (TMX, "(TMX)"), (PAGE, "HTML"), (SUBTITLES, "SRT"), ('{"a": "b"}\n', "JSON")],
)
def test_other_formats_on_standard_input_are_refused(
    content: str, named: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, content.encode())
    assert named in refused(capfd=capfd)
    type_in(monkeypatch, content.encode())
    assert run_command(["translate", "model", "--format", "text"]) == 0
    assert capfd.readouterr().out.count("\n") == content.count("\n")


def test_it_is_asked_for_what_is_not_clear(
    languages: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table, records, memory = tmp_path / "a.tsv", tmp_path / "a.jsonl", tmp_path / "a.tmx"
    table.write_text("Source\tTarget\nOne.\tEins.\n", encoding="utf-8")
    assert "seems to start with a header" in refused("--input", str(table), capfd=capfd)
    table.write_text(f"{GERMAN}\tThe old man went to town.\n" * 20, encoding="utf-8")
    assert "looks like German (de), but the model translates from English (en)" in refused(
        "--input", str(table), capfd=capfd
    )
    assert translated(table, table.read_text(), "--columns", "2", capfd=capfd).startswith("The old man")
    records.write_text('{"a": "One.", "b": "Eins."}\n', encoding="utf-8")
    assert "`--columns SOURCE` names the source" in refused("--input", str(records), capfd=capfd)
    languages[:] = "", ""
    memory.write_text(TMX.replace("<tu>", '<tu><tuv xml:lang="fr"><seg>Un.</seg></tuv>'), encoding="utf-8")
    assert "`--src-lang`" in refused("--input", str(memory), capfd=capfd)
    flags = ["--src-lang", "fr", "--tgt-lang", "German"]
    assert translated(memory, memory.read_text(), *flags, capfd=capfd) == "Un.\nUn.\n"
    text = tmp_path / "a.en"
    text.write_text("One.\n")
    assert "`--columns` and `--header` are for files with pairs" in refused(
        "--input", str(text), "--columns", "2", capfd=capfd
    )


def segments(capfd: pytest.CaptureFixture[str]) -> int:
    said = capfd.readouterr()
    assert "split into" not in said.err
    return int(json.loads(said.out)["segments"])


@pytest.mark.usefixtures("languages")
def test_sentences_are_translated_alone_where_a_person_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    two = "How are you? I am fine."
    Path("in").write_text(two)
    cases: list[tuple[list[str], bool, int]] = [
        (["model", "--text", two], False, 2),
        (["model"], True, 2),
        (["model"], False, 1),
        (["model", "--input", "in"], True, 1),
        (["demo"], False, 2),
        (["demo", "--input", "in"], False, 2),
    ]
    for arguments, is_terminal, expected in cases:
        type_in(monkeypatch, two.encode(), is_terminal)
        assert run_command(["translate", *arguments, "--format", "jsonl"]) == 0
        assert segments(capfd) == expected, arguments
    for flags, expected in ((["--split"], 2), (["--no-split"], 1)):
        type_in(monkeypatch, two.encode(), is_terminal=not expected - 1)
        assert run_command(["translate", "model", "--format", "jsonl", *flags]) == 0
        assert segments(capfd) == expected, flags


@pytest.mark.usefixtures("languages")
def test_a_person_at_a_terminal_learns_of_what_the_model_is_unsure_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("one\n")
    file, text = ["--input", str(tmp_path / "in")], ["--text", "one"]
    note = "dragoman: the model is unsure of the translation of line 1. Check it; `--flags` marks such lines.\n"
    for is_terminal, flags, notes in (
        (True, text, 1),
        (True, [*text, "--stream"], 1),
        (True, [*text, "--flags"], 0),
        (True, [*text, "--format", "jsonl"], 0),
        (True, file, 0),
        (False, text, 0),
    ):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        assert run_command(["translate", "model", *flags]) == 0
        assert capsys.readouterr().err.count(note) == notes, flags


@pytest.mark.usefixtures("languages")
def test_only_a_person_at_a_terminal_is_told_how_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("one\n")
    flags = (), ("--text", "one"), ("--input", str(tmp_path / "in"))
    for is_terminal in (True, False):
        for arguments in flags:
            typed = io.BytesIO(b"one\n")
            monkeypatch.setattr(typed, "isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed))
            assert run_command(["translate", "model", *arguments]) == 0
            assert ("Ctrl-D ends" in capsys.readouterr().err) == (is_terminal and not arguments), arguments


@pytest.mark.usefixtures("languages")
def test_a_picture_is_not_taken_for_text_in_another_encoding(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scan.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0" + bytes(range(256)) * 20)
    said = refused("--input", str(path), capfd=capfd)
    assert "it is probably not text. Name a text file." in said
    assert "--encoding" not in said


@pytest.mark.usefixtures("languages")
def test_a_file_in_another_encoding_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin1.de"
    for lines, number in ((["Grüße aus Köln"], 1), (["Hallo"] * 90 + ["Äpfel für Jörg"], 91)):
        path.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
        said = refused("--input", str(path), "--output", str(tmp_path / "out"), capfd=capfd)
        assert f"{path} is not UTF-8: 1 of its first {number} lines have other bytes, such as line {number}. " in said
        assert "`--encoding windows-1252`" in said
        assert list(tmp_path.iterdir()) == [path]
        assert run_command(["translate", "model", "--input", str(path), "--encoding", "latin-1"]) == 0
        assert capfd.readouterr().out == "\n".join([*lines, ""])
    with path.open() as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stream)
        assert "standard input is not UTF-8" in refused(capfd=capfd)


# The buffer of the last ends after two of the three bytes of a character.
BYTES = [b"Gr\xfcn\n", b"one\n" * 150 + b"Gr\xfc\xdfe\n", ("\n" + ("G" + "€" * 40 + "\n") * 40).encode()]


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("content", BYTES, ids=range(3))
def test_single_bad_bytes_become_a_note(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dragoman.text.lines._BUFFER_BYTES", 4096)
    (tmp_path / "in").write_bytes(content)
    assert run_command(["translate", "model", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == content.decode("utf-8", "replace")
    assert ("is not UTF-8; invalid bytes became U+FFFD." in capfd.readouterr().err) == (b"\xfc" in content)


@pytest.mark.usefixtures("languages")
def test_output_is_packed_if_its_name_ends_in_gz(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text, cues = tmp_path / "in.txt", tmp_path / "film.srt"
    text.write_text("one\ntwo\n")
    cues.write_text(SUBTITLES)
    for path, flags in ((text, []), (cues, ["--format", "srt"]), (cues, [])):
        output = tmp_path / f"{path.name}.gz"
        command = ["translate", "model", "--input", str(path), *flags, "--output", str(output)]
        packed = []
        for _ in range(2):
            assert run_command(command) == 0
            packed.append(output.read_bytes())
        assert packed[0][:2] == b"\x1f\x8b"
        assert packed[0] == packed[1]
        assert gzip.decompress(packed[0]) == path.read_bytes()
        assert translated(output, path.read_text(), "--format", "text", capfd=capfd) == path.read_text()
        output.unlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["film.srt", "in.txt"]


@pytest.mark.usefixtures("languages")
def test_a_document_is_known_by_its_name_or_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("film.srt", "film.vtt.gz", "film"):
        assert translated(tmp_path / name, SUBTITLES, capfd=capfd) == SUBTITLES
    as_text = translated(tmp_path / "film.srt", SUBTITLES, "--format", "text", "--no-protect", capfd=capfd)
    assert as_text == SUBTITLES
    said = refused("--input", str(tmp_path / "film.srt"), "--format", "jsonl", capfd=capfd)
    assert "holds SRT, not lines of text. Add `--format srt`." in said
    for others in (["--flags"], ["--cluster", "local", "--output", str(tmp_path / "out")], ["--stream"]):
        assert run_command(["translate", "model", "--input", str(tmp_path / "film.srt"), *others]) == 2
        assert f"`--format srt` and `{others[0]}` must not both be given." in capfd.readouterr().err


@pytest.mark.usefixtures("languages")
def test_a_text_needs_no_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run_command(["translate", "model", "--text", "Hi", "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text() == "Hi\n"
    assert "standard input is closed" in refused(capfd=capfd)


def test_a_page_declares_its_new_encoding_and_language(
    small_bundle: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    translator = Translator.from_models([small_bundle])
    translator.settings = InferenceSettings(beam_size=1)
    model = LoadedTranslator(translator, "en", "de")
    monkeypatch.setattr("dragoman.cli.translate.load_model", lambda request, progress: model)
    page = tmp_path / "page.html"
    page.write_bytes('<html lang="en"><meta charset=iso-8859-1><p>\xfc one</p></html>'.encode("iso-8859-1"))
    command = ["translate", "model", "--input", str(page), "--encoding", "iso-8859-1", "--format", "html"]
    assert run_command(command) == 0
    assert capfd.readouterr().out.startswith('<html lang="de"><meta charset=utf-8><p>')
