"""Documents on the command line, tested with a translator that writes capitals."""

import gzip
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.cli.main import run_command
from dragoman.errors import ResourceError
from dragoman.files import write_file
from dragoman.records import Candidate, Preserve, Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.workflows.models import LoadedTranslator
from tests.unit.text.documents.office.office_files import archive_of, body_of, docx, member, odt, word_part
from tests.unit.text.documents.office.office_files import translate as translate_segment

pytestmark = pytest.mark.usefixtures("capitals_model")
REPORT = docx(
    '<w:p><w:r><w:t xml:space="preserve">one </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>two</w:t></w:r></w:p>'
)
NOTE = odt("<text:p>one <text:span>two</text:span></text:p>")


class Capitals:
    """A translator that writes its source in capitals."""

    models: tuple[()] = ()

    def translate_marked(self, sources: list[MarkedText], preserve: Preserve, _: Any) -> list[Translation]:
        document = SimpleNamespace(escape=preserve.escape)
        texts = [translate_segment(one, document) for one in sources]
        return [Translation("", (Candidate(text, (), (), 0.0, 0.0),), 1, False) for text in texts]


@pytest.fixture
def capitals_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = Capitals()
    monkeypatch.setattr("dragoman.cli.translate.load_model", lambda *_: LoadedTranslator(model, "en", "de"))


def translate(*arguments: str | Path, expected: int = 0) -> None:
    assert run_command(["translate", "model", *map(str, arguments)]) == expected


def said_once(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line on standard error of a command that fails."""
    translate(*arguments, expected=2)
    said = capfd.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1), said.err
    return said.err


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.docx", REPORT), ("a.odt", NOTE), ("a.docx.gz", gzip.compress(REPORT)), ("unnamed", NOTE), ("a.html", REPORT)],
)
def test_an_office_file_is_known_by_its_content(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    output = tmp_path / ("out.odt" if content == NOTE else "out.docx")
    translate("--input", tmp_path / name, "--output", output)
    written = output.read_bytes()
    assert body_of(written) == body_of(NOTE if content == NOTE else REPORT).replace("one", "ONE").replace("two", "TWO")


@pytest.mark.parametrize(("kind", "content"), [("docx", REPORT), ("odt", NOTE), ("odt", REPORT)])
def test_standard_input_needs_the_format(
    kind: str, content: bytes, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    translate("--format", kind)
    assert "ONE" in body_of(capfdbinary.readouterr().out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    translate(expected=2)
    assert b"not lines of text. Add `--format " in capfdbinary.readouterr().err


def test_comments_and_styles_are_chosen(tmp_path: Path) -> None:
    body = '<w:p><w:pPr><w:pStyle w:val="My"/></w:pPr><w:r><w:t>one</w:t></w:r></w:p>'
    style = '<w:style w:styleId="My"><w:name w:val="My own"/></w:style>'
    comment = word_part("<w:p><w:r><w:t>two</w:t></w:r></w:p>", "comments")
    content = docx(body, word__styles=word_part(style, "styles"), word__comments=comment)
    (tmp_path / "a.docx").write_bytes(content)
    flags = ("--input", tmp_path / "a.docx", "--output")
    translate(*flags, tmp_path / "1.docx")
    translate(*flags, tmp_path / "2.docx", "--comments", "--keep-styles", "Other, my own")
    texts = [(tmp_path / name).read_bytes() for name in ("1.docx", "2.docx")]
    assert ["ONE" in body_of(text) for text in texts] == [True, False]
    assert ["TWO" in member(text, "word/comments.xml") for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.docx", b"", "is empty"),
        ("a.docx", b"%PDF-1.4", "holds a PDF file, not lines of text. Convert it with LibreOffice"),
        ("a.pdf", b"%PDF-1.4", "soffice --infilter=writer_pdf_import --convert-to docx FILE"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document, or one with a password"),
        ("a.rtf", b"{\\rtf1 one}", "(`soffice --convert-to docx FILE`)"),
        ("a.xlsx", archive_of({"a": "b"}), "holds a spreadsheet, not lines of text. Save it as .csv"),
        ("a.docx", b"<html>one two", "is not a docx or odt file, but text, HTML or something else. Save it as .docx"),
        ("a.docx", REPORT[:-40], "is not a complete zip archive"),
        ("a.docx", archive_of({"../x": "b"}), "member '../x' has a name outside the archive"),
        ("a.docx", archive_of({"a": b"\0" * 20_000_000}), "grows from"),
        ("a.docx", docx('</w:body><!DOCTYPE x [<!ENTITY e "e">]>'), "member 'word/document.xml' is not well-formed"),
    ],
)
def test_bad_files_are_one_line_and_nothing_is_written(
    name: str, content: bytes, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    said = said_once(capfd, "--input", tmp_path / name, "--output", tmp_path / "out.docx")
    assert str(tmp_path / name) in said
    assert words in said
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--output", "there.docx"], "there.docx, which exists already. Choose another name, or remove it."),
        (["--output", "a.docx"], "`--input` is a.docx, which `--output` a.docx would replace."),
        (["--output", "new.pdf"], "new.pdf, but a.docx is a docx file, and so is its translation. Use new.docx."),
        (["--output", "new.odt", "--format", "odt"], "new.odt, but a.docx is a docx file, and so is its translation."),
        (["--output", "new.txt"], "new.txt, but a.docx is a docx file, and so is its translation. Use new.docx."),
        (["--output", "new"], "`--output` is new, but a.docx is a docx file, and so is its translation. Use new.docx."),
        (["--output", "."], "`--output` is ., which is a folder. Give a file name, such as translated.docx."),
        (["--output", "new.txt.docx", "--format", "text"], "a.docx holds DOCX, not lines of text."),
        (["--output", "new.docx", "--alignment"], "`--format docx` and `--alignment` must not both be given."),
    ],
)
def test_outputs_that_would_harm(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.docx", "there.docx"):
        Path(name).write_bytes(REPORT)
    assert words in said_once(capfd, "--input", "a.docx", *flags)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == dict.fromkeys(
        ("a.docx", "there.docx"), REPORT
    )


def test_lines_are_not_written_as_an_office_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    said = said_once(capfd, "--input", tmp_path / "a.txt", "--output", tmp_path / "a.docx")
    assert "a.txt is text. Change the ending." in said
    said = said_once(capfd, "--input", tmp_path / "a.txt", "--keep-styles", "Code")
    assert "`--keep-styles` is for office documents, but" in said


def test_an_office_file_is_not_printed_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.docx").write_bytes(REPORT)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "is a docx file, not text. Name a file for it with `--output`." in said_once(
        capfd, "--input", tmp_path / "a.docx"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with documents, broken ones, and other files."""
    contents: dict[str, bytes] = {
        "a.docx": REPORT,
        "b.docx": b"one",
        "c.pdf": b"%PDF-1.4",
        "sub/d.odt": NOTE,
        "sub/e.txt": "eins zwölf\n".encode("latin-1"),
        "f.html": b"<p>one <b>two</b></p>",
        "i.docx.gz": gzip.compress(REPORT),
        "g.vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\none\n",
        "picture.png": b"\x89PNG\r\n\0\0",
        "style.css": b"a { color: red }",
        "pairs.tsv": b"one\teins\n",
        "~$a.docx": b"lock",
        ".hidden.docx": b"one",
        ".git/h.docx": REPORT,
    }
    for name, content in contents.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    return tmp_path


def test_each_file_of_a_folder_is_on_its_own(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ("--input", folder / "in", "--output", folder / "out", "--encoding", "latin-1")
    translate(*flags, expected=2)
    said = capfd.readouterr().err
    names = {str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*") if path.is_file()}
    assert names == {"a.docx", "sub/d.odt", "sub/e.txt", "f.html", "g.vtt", "i.docx.gz"}
    assert f"{folder / 'in' / 'b.docx'} is not a docx or odt file" in said
    assert f"{folder / 'in' / 'c.pdf'} holds a PDF file" in said
    assert said.endswith(
        f"dragoman: files in {folder / 'in'}: 6 translated to {folder / 'out'}; 2 refused, as said above; "
        "3 of other kinds left out (pairs.tsv, picture.png, style.css).\n"
    )
    assert (folder / "out" / "sub" / "e.txt").read_text(encoding="utf-8") == "EINS ZWÖLF\n"
    assert "ONE" in body_of(gzip.decompress((folder / "out" / "i.docx.gz").read_bytes()))
    (folder / "out" / "a.docx").write_bytes(b"edited")
    (folder / "out" / "f.html").unlink()
    for name in ("b.docx", "c.pdf"):
        (folder / "in" / name).unlink()
    translate(*flags)
    assert "1 translated to" in (said := capfd.readouterr().err)
    assert "; 5 left out, because their translations exist;" in said
    assert (folder / "out" / "a.docx").read_bytes() == b"edited"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "is a folder, but `--output` is not given. Name a folder for it."),
        (["--output", "in"], "`--output` in is the folder of `--input`, or in it. Choose one outside."),
        (["--output", "in/sub/out"], "`--output` in/sub/out is the folder of `--input`, or in it."),
        (["--output", "in/a.docx"], "`--output` in/a.docx is a file. Name a folder."),
        (["--output", "none/out"], "none is not a folder. Create it first."),
        (
            ["--output", "out", "--format", "docx"],
            "`--format` is not for folders such as in. Leave it out, or name a file.",
        ),
        (["--output", "out", "--columns", "1,2"], "`--columns` is not for folders such as in."),
        (["--output", "out", "--inference.n-best", "3"], "`--inference.n-best` must be 1 for a folder of documents."),
    ],
)
def test_folders_that_cannot_be_written(
    flags: list[str], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    assert words in said_once(capfd, "--input", "in", *flags)
    assert sorted(folder.rglob("*")) == before


def test_links_and_pipes_in_a_folder(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "in" / "pipe.docx")
    (folder / "in" / "lost.docx").symlink_to("nowhere.docx")
    (folder / "in" / "link.docx").symlink_to("a.docx")
    (folder / "in" / "other").symlink_to(folder)
    translate("--input", folder / "in", "--output", folder / "out", "--encoding", "latin-1", expected=2)
    said = capfd.readouterr().err
    assert "lost.docx does not exist" in said
    assert "4 of other kinds left out (other, pairs.tsv, picture.png, style.css)" in said
    assert (folder / "out" / "link.docx").is_file()


def test_a_folder_without_documents_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    translate("--input", tmp_path / "in", "--output", tmp_path / "out", expected=2)
    said = capfd.readouterr().err
    assert said.endswith(f"{tmp_path / 'in'} has no documents that are translated. Name another folder.\n")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_ends_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk in the middle of a folder ends the command: the next documents would fail, too."""
    written: list[Any] = []

    def fail(path: Path, content: bytes) -> None:
        if written:
            raise ResourceError("the disk is full")
        written.append(path)
        write_file(path, content)

    monkeypatch.setattr("dragoman.workflows.documents.write_file", fail)
    translate("--input", folder / "in", "--output", folder / "out", "--encoding", "latin-1", expected=2)
    assert [path for path in (folder / "out").rglob("*") if path.is_file()] == written
