"""`dragoman.translate_document` with real models, from Python and at the command line."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import dragoman
from dragoman.cli.main import run_command
from dragoman.errors import ConfigError, DataError
from dragoman.serving.app import make_app
from dragoman.serving.http.keys import Keys
from dragoman.serving.limits import ServeSettings
from dragoman.serving.models import Models, load_served_model
from dragoman.serving.service import Service
from tests.unit.text.documents.office.office_files import body_of, docx, member, odt, word_part

BOLD = "<w:rPr><w:b/></w:rPr>"
REPORT = docx(
    f'<w:p><w:r><w:t xml:space="preserve">A woman in a </w:t></w:r><w:r>{BOLD}<w:t>red shirt</w:t></w:r>'
    '<w:r><w:t xml:space="preserve"> plays guitar. Where is the station?</w:t></w:r></w:p>',
    word__comments=word_part("<w:p><w:r><w:t>It is late.</w:t></w:r></w:p>", "comments"),
    word__styles=word_part('<w:docDefaults><w:rPr><w:lang w:val="en-US"/></w:rPr></w:docDefaults>', "styles"),
)
TRANSLATED = (
    '<w:p><w:r><w:t xml:space="preserve">Eine Frau in einem </w:t></w:r>'
    f"<w:r>{BOLD}<w:t>roten Hemd</w:t></w:r>"
    '<w:r><w:t xml:space="preserve"> spielt Gitarre. Wo ist der Bahnhof?</w:t></w:r></w:p>'
)


def test_a_report_is_translated_by_path_or_bytes(tmp_path: Path) -> None:
    (tmp_path / "report.docx").write_bytes(REPORT)
    translator = dragoman.load("demo")
    translated = dragoman.translate_document(tmp_path / "report.docx", translator)
    assert translated is not None
    assert body_of(translated) == TRANSLATED
    assert '<w:lang w:val="de-DE"/>' in member(translated, "word/styles.xml")
    assert "It is late." in member(translated, "word/comments.xml")
    assert dragoman.translate_document(REPORT, translator) == translated
    assert dragoman.translate_document(REPORT, "demo", tmp_path / "bericht.docx") is None
    assert (tmp_path / "bericht.docx").read_bytes() == translated
    command = ["translate", "demo", "--input", str(tmp_path / "report.docx"), "--output", str(tmp_path / "2.docx")]
    assert run_command(command) == 0
    assert (tmp_path / "2.docx").read_bytes() == translated


def test_comments_terms_and_settings_of_the_translator() -> None:
    translator = dragoman.load("demo")
    terms = dragoman.Terms([("station", "Hauptbahnhof")])
    translated = dragoman.translate_document(REPORT, translator, preserve=dragoman.Preserve(terms=terms), comments=True)
    assert translated is not None
    assert "Hauptbahnhof" in body_of(translated)
    assert "Es ist spät." in member(translated, "word/comments.xml")


def test_a_server_translates_as_the_library_does() -> None:
    terms = dragoman.Terms([("station", "Hauptbahnhof")])
    model = replace(load_served_model("demo"), terms=terms)
    with TestClient(make_app(Service(Models([model]), ServeSettings()), Keys(None, 0))) as client:
        for name, content in (("a.docx", REPORT), ("a.odt", odt("<text:p>Where is the station?</text:p>"))):
            form = {"source": "en", "target": "de"}
            answer = client.post("/translate_file", data=form, files={"file": (name, content)})
            served = client.get(answer.json()["translatedFileUrl"]).content
            assert served == dragoman.translate_document(content, "demo", preserve=dragoman.Preserve(terms=terms))
            assert "Hauptbahnhof" in body_of(served)


def test_texts_go_through_the_same_door(tmp_path: Path) -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,000\n%s\n"
    page = '<html lang="%s"><p>%s</p></html>'
    for name, content, expected in (
        ("a.txt", "It is late.\n\n", "Es ist spät.\n\n"),
        ("a.srt", cue % "It is late.", cue % "Es ist spät."),
        ("a.htm", page % ("en", "It is late."), page % ("de", "Es ist spät.")),
    ):
        (tmp_path / name).write_text(content)
        assert dragoman.translate_document(tmp_path / name, "demo") == expected.encode()
        assert dragoman.translate_document(content.encode(), "demo") == expected.encode()


def test_a_document_of_libreoffice_keeps_its_first_member() -> None:
    note = odt("<text:p>It is late.</text:p>")
    translated = dragoman.translate_document(note, "demo")
    assert translated is not None
    with zipfile.ZipFile(io.BytesIO(translated)) as archive:
        first = archive.infolist()[0]
    assert (first.filename, first.compress_type, first.header_offset) == ("mimetype", zipfile.ZIP_STORED, 0)
    assert "Es ist spät." in body_of(translated)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("none.docx", "demo"), DataError, "none.docx does not exist"),
        ((3, "demo"), ConfigError, "`document` must be a path, or the bytes of a file, but is 3."),
        ((b"%PDF-1.4", "demo"), DataError, "the document holds a PDF file, not a document that is read. Convert it"),
        ((b"\xff\xfeo\0n\0e\0", "demo"), DataError, "the document line 1 has 0xff, which is not UTF-8. Save the file"),
        ((REPORT, "demo", "there.docx"), ConfigError, "`output` is there.docx, which exists already."),
        ((REPORT, "demo", "new.pdf"), ConfigError, "`output` is new.pdf, but the document is a docx file, and so is"),
        ((REPORT, 3), ConfigError, "`translator` must be a path, a run or a translator, but is 3."),
        (("there.docx", "demo", "there.docx"), ConfigError, "`output` is there.docx, which exists already."),
        ((REPORT, "demo", "none/new.docx"), ConfigError, "none is not a folder. Create it first."),
    ],
)
def test_errors_are_one_line(
    arguments: tuple[object, ...],
    kind: type[Exception],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.docx").write_bytes(REPORT)
    with pytest.raises(kind) as error:
        dragoman.translate_document(*arguments)  # type: ignore[arg-type]
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert Path("there.docx").read_bytes() == REPORT
    assert [path.name for path in tmp_path.iterdir()] == ["there.docx"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("keep_styles", "Code", "a list of texts"),
        ("comments", "yes", "True or False"),
        ("preserve", True, "a `dragoman"),
    ],
)
def test_types_are_checked(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` must be {expected}"):
        dragoman.translate_document(REPORT, "demo", **{name: value})


def test_a_page_does_not_replace_itself(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>It is late.</p>")
    with pytest.raises(ConfigError, match=r"a\.html, which is the document"):
        dragoman.translate_document(tmp_path / "a.html", "demo", tmp_path / "a.html")
