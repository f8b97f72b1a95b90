import random
import zipfile
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text.documents.office.document import read_office
from tests.unit.text.documents.office.office_files import archive_of, docx, member, odt, word_part, written

BODY = "<w:p><w:r><w:t>one</w:t></w:r></w:p>"


def fault_of(content):
    with pytest.raises(DataError) as error:
        read_office(content, "my.docx")
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("my.docx")
    return message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"<html><p>one</p></html>", "is not a docx or odt file, but text, HTML or something else"),
        (archive_of({"a.txt": "x"}), "is a zip archive, but not of an office file"),
        (
            archive_of({"[Content_Types].xml": "<Types><Override PartName='/xl/w.xml' ContentType='x'/></Types>"}),
            "not a Word file",
        ),
        (archive_of({"mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": ""}), "spreadsheet"),
    ],
)
def test_other_files_are_refused_with_a_way_out(content, words):
    message = fault_of(content)
    assert words in message
    assert message.endswith("Save it as .docx or .odt in an office program, such as LibreOffice.")


def damaged(content, place):
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


def with_entry(name, content=b"x", flags=0):
    written_to = BytesIO(docx(BODY))
    with zipfile.ZipFile(written_to, "a", zipfile.ZIP_DEFLATED) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        file.writestr(name, content)
        file.infolist()[-1].flag_bits |= flags
    return written_to.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (docx(BODY)[:-30], "is not a complete zip archive"),
        (b"PK\x03\x04", "is not a complete zip archive"),
        (with_entry("../evil"), "member '../evil' has a name outside the archive"),
        (with_entry("/evil"), "has a name outside the archive"),
        (with_entry("a\\..\\evil"), "has a name outside the archive"),
        (with_entry("C:/evil"), "has a name outside the archive"),
        (with_entry("word/document.xml"), "member 'word/document.xml' occurs twice"),
        (with_entry("word/secret", flags=1), "member 'word/secret' is encrypted"),
        (with_entry("word/bomb", bytes(30 << 20)), "member 'word/bomb' grows from"),
        (docx("<w:p>"), "member 'word/document.xml' is not well-formed XML"),
        (docx("", word__document='<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'), "declares a document type or entities"),
        (docx("<w:sdt>" * 500 + "</w:sdt>" * 500), "has more than 200 nested elements"),
        (
            archive_of({"[Content_Types].xml": member(docx(BODY), "[Content_Types].xml")}),
            "'word/document.xml' is missing",
        ),
        (
            archive_of({**{f"m{n}": "" for n in range(20_001)}}),
            "has 20,001 members, but at most 20,000 are read.",
        ),
    ],
)
def test_bad_archives_are_refused_with_the_member(content, words):
    assert words in fault_of(content)


def test_a_damaged_member_is_named():
    content = docx("<w:p><w:r><w:t>" + "".join(random.Random(1).choices("abcdefgh ", k=5000)) + "</w:t></w:r></w:p>")
    message = fault_of(damaged(content, len(content) // 2))
    assert "member 'word/document.xml' is damaged" in message


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([docx(BODY), odt("<text:p>one</text:p>")]), st.randoms(use_true_random=False))
def test_damage_is_refused_in_one_line(content, random):
    """A file with a wrong byte is read, or refused with a message."""
    content = damaged(content, random.randrange(len(content)))
    message = "file"
    try:
        written(content[: random.choice([len(content), random.randrange(len(content))])])
    except DataError as error:
        message = str(error)
    assert "\n" not in message
    assert message.startswith("file")


def test_an_encrypted_open_document_is_named():
    manifest = '<m:manifest xmlns:m="urn:m"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'
    content = archive_of(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": "\x00",
            "META-INF/manifest.xml": manifest,
        }
    )
    assert "is encrypted" in fault_of(content)


@pytest.mark.parametrize("content", [docx(""), docx("<w:p/>"), odt(""), odt("<text:p/>")])
def test_an_empty_document_has_no_texts(content):
    document = read_office(content, "my.docx")
    assert document.segments == []
    assert document.write([]) == written(content)


def entries(content):
    with zipfile.ZipFile(BytesIO(content)) as file:
        return file.comment, [
            (info.filename, info.date_time, info.compress_type, info.external_attr, info.comment, info.create_system)
            for info in file.infolist()
        ]


def test_other_members_and_the_directory_stay():
    macros = {"word/vbaProject.bin": random.Random(2).randbytes(999), "word/empty/": b"", "[Content_Types].xml": ""}
    members = {
        **macros,
        "[Content_Types].xml": member(docx(BODY), "[Content_Types].xml"),
        "word/document.xml": word_part(BODY),
    }
    content = archive_of(members, "word/vbaProject.bin")
    result = written(content)
    assert entries(result) == entries(content)
    assert "ONE" in member(result)
    with zipfile.ZipFile(BytesIO(result)) as file:
        assert file.read("word/vbaProject.bin") == macros["word/vbaProject.bin"]
    assert written(odt("<text:p>a</text:p>")).startswith(b"PK\x03\x04")
    assert written(odt("<text:p>a</text:p>"))[30:77] == b"mimetypeapplication/vnd.oasis.opendocument.text"


def test_a_signed_file_is_recognized():
    signed = with_entry("_xmlsignatures/sig1.xml"), with_entry("META-INF/documentsignatures.xml")
    assert [len(read_office(content, "my.docx").notes) for content in (*signed, docx(BODY))] == [1, 1, 0]


def test_a_damaged_picture_is_named_when_the_file_is_written():
    content = archive_of(
        {
            "[Content_Types].xml": member(docx(BODY), "[Content_Types].xml"),
            "word/document.xml": word_part(BODY),
            "word/media/a.png": random.Random(3).randbytes(5000),
        },
        "word/media/a.png",
    )
    document = read_office(damaged(content, len(content) - 3000), "my.docx")
    with pytest.raises(DataError, match=r"member 'word/media/a[.]png' is damaged"):
        document.write(["ONE"])


def test_translations_must_have_the_markers_of_their_texts():
    document = read_office(
        docx(f"<w:p>{'<w:r><w:t>a</w:t></w:r><w:hyperlink><w:r><w:t>b</w:t></w:r></w:hyperlink>'}</w:p>"), "f"
    )
    with pytest.raises(ValueError, match="each marker"):
        document.write(["a b"])
    with pytest.raises(ValueError, match="shorter"):
        document.write([])


def test_a_translation_is_escaped_and_has_no_characters_that_xml_forbids():
    document = read_office(docx(BODY), "my.docx")
    result = document.write([document.escape('1 < 2 & "x"\x07\ufffe')])
    assert '<w:t>1 &lt; 2 &amp; "x"</w:t>' in member(result)
