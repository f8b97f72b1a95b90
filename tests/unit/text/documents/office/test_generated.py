"""Generated files of both formats: the stand-in's capitals are in every text to translate, and nothing else changes.

Twenty files of each format are tested in every run, and 200 with ``-m slow``. The tests with LibreOffice and with the
schema of Word are slow too. The schema is ``ref/xsd`` of the sources of python-docx, in the folder DRAGOMAN_SCHEMAS.
"""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from functools import cache
from io import BytesIO
from pathlib import Path

import docx
import odfdo
import pytest
from lxml import etree

from dragoman.text.documents.office.document import read_office
from tests.unit.text.documents.office.generated_docx import WordFile
from tests.unit.text.documents.office.generated_odt import OpenFile
from tests.unit.text.documents.office.generated_words import capital_words, composed, words_in
from tests.unit.text.documents.office.office_files import capitals, translate, written
from tests.unit.text.documents.office.office_tokens import capitals_of, parsed, text_of, tokens_of, xml_members

KINDS: dict[str, type[WordFile | OpenFile]] = {"docx": WordFile, "odt": OpenFile}
NUM_FILES, NUM_QUICK, BATCH = 200, 20, 50
every_file = pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[pytest.mark.slow] * (seed >= NUM_QUICK))
        for kind in KINDS
        for seed in range(NUM_FILES)
    ],
)
COMMENTS = "word/comments.xml"
COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

generated = cache(lambda kind, seed: KINDS[kind](seed))


def entries(content):
    """Everything that a zip archive tells about its members, in order."""
    with zipfile.ZipFile(BytesIO(content)) as file:
        return [(info.filename, info.date_time, info.compress_type, file.read(info)) for info in file.infolist()]


@every_file
def test_source_texts_written_back_change_nothing(kind, seed):
    content = generated(kind, seed).content
    assert entries(written(content, str, comments=True)) == entries(content)


def changed_member(before, after):
    """The first member that differs in more than the capitals of its words, for the message of a test."""
    others = [name for name in before if name != COMMENTS]
    for name in others:
        if capitals_of(tokens_of(parsed(before[name]))) != tokens_of(parsed(after[name])):
            return name
    return None


def library_text(kind, content):
    """The text that python-docx or odfdo finds in the body, with all white space as one space."""
    if kind == "docx":
        document = docx.Document(BytesIO(content))
        tables = [cell.text for table in document.tables for row in table.rows for cell in row.cells]
        text = "\n".join([*(paragraph.text for paragraph in document.paragraphs), *tables])
    else:
        body = odfdo.Document(BytesIO(content)).body
        text = "\n".join(paragraph.text_recursive for paragraph in (*body.headers, *body.paragraphs))
    return " ".join(text.replace("\xad", "").split())


@every_file
def test_words_are_translated_and_nothing_else_changes(kind, seed):
    file = generated(kind, seed)
    result = written(file.content)
    before, after = xml_members(file.content), xml_members(result)
    assert changed_member(before, after) is None
    assert [(*head, b"" if head[0] in after else content) for *head, content in entries(result)] == [
        (*head, b"" if head[0] in before else content) for *head, content in entries(file.content)
    ]
    assert after.get(COMMENTS) == before.get(COMMENTS)
    found = "\n".join(text_of(tokens_of(parsed(content))) for content in after.values())
    assert [word for word in (*file.words.visible, *file.words.unseen) if word.upper() not in found] == []
    assert [word for word in file.words.kept if word not in found] == []
    text = library_text(kind, file.content)
    assert library_text(kind, result) == capital_words(text)
    assert len(words_in(text)) > 20


@cache
def schema():
    """The schema of Word."""
    if "DRAGOMAN_SCHEMAS" not in os.environ:
        pytest.skip("needs the schemas of Word in the folder DRAGOMAN_SCHEMAS (ref/xsd of the sources of python-docx)")
    return etree.XMLSchema(etree.parse(str(Path(os.environ["DRAGOMAN_SCHEMAS"]) / "wml.xsd")))


def schema_faults(content):
    """The faults of the parts with text, in which alternate content is as a program of 2007 reads it."""
    for name, xml in xml_members(content).items():
        if not name.startswith("word/") or b"wordprocessingml/2006/main" not in xml or "settings" in name.lower():
            continue
        root = parsed(xml)
        for element in list(root.iter(f"{COMPATIBILITY}AlternateContent")):
            for child in element.find(f"{COMPATIBILITY}Fallback"):
                element.addprevious(child)
            element.getparent().remove(element)
        root.attrib.pop(f"{COMPATIBILITY}Ignorable", None)
        if not schema().validate(root):
            yield name, schema().error_log[0].message


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(NUM_FILES))
def test_word_files_stay_valid_by_the_schema(seed):
    """Also where the direction of the text is declared, whose properties have a place of their own."""
    content = generated("docx", seed).content
    assert list(schema_faults(content)) == []
    document = read_office(content, "file")
    translations = [translate(segment, document, capitals) for segment in document.segments]
    for tgt_lang in ("de", "ar", "ja"):
        assert list(schema_faults(document.write(translations, ("en", tgt_lang)))) == []


def converted(folder: Path, kind: str, names: Iterable[str]) -> None:
    """Convert the files in the folder with LibreOffice."""
    program = shutil.which("soffice")
    if not program:
        pytest.skip("LibreOffice is not installed (apt-get install libreoffice-writer)")
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    command = [program, profile, "--headless", "--convert-to", kind, "--outdir", str(folder)]
    subprocess.run([*command, *(str(folder / name) for name in names)], check=True, capture_output=True, timeout=280)


def printed_text(file: Path) -> str:
    """The text of a PDF file without white space and without pictures of faces, which pdftotext moves."""
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed (apt-get install poppler-utils)")
    printed = subprocess.run(["pdftotext", "-raw", file, "-"], capture_output=True, text=True, check=True).stdout
    return "".join(letter for letter in composed(printed) if letter < "\U00010000" and not letter.isspace())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, NUM_FILES, BATCH))
def test_libreoffice_prints_every_word_translated(kind, first, tmp_path):
    """Every word that LibreOffice prints of the original is printed in capitals."""
    seeds = range(first, first + BATCH)
    for seed in seeds:
        content = generated(kind, seed).content
        (tmp_path / f"{seed}.{kind}").write_bytes(content)
        (tmp_path / f"{seed}-capitals.{kind}").write_bytes(written(content))
    converted(tmp_path, "pdf", [f"{seed}{end}.{kind}" for seed in seeds for end in ("", "-capitals")])
    num_words, num_printed = 0, 0
    for seed in seeds:
        original, result = (printed_text(tmp_path / f"{seed}{end}.pdf") for end in ("", "-capitals"))
        words = [composed(word) for word in generated(kind, seed).words.visible]
        printed = [word for word in words if word in original]
        num_words, num_printed = num_words + len(words), num_printed + len(printed)
        assert [word for word in words if word in result] == []
        assert [word for word in printed if word.upper() not in result] == []
    # LibreOffice itself loses text, for example after a field in a control.
    assert num_printed > 0.97 * num_words


def is_well_formed(content):
    """Whether all XML is. LibreOffice nests some changes wrongly."""
    try:
        return bool([parsed(xml) for xml in xml_members(content).values()])
    except etree.XMLSyntaxError:
        return False


def in_small_letters(tokens):
    return [(token[0].lower(), token[1]) if len(token) == 2 else token for token in tokens]


@pytest.mark.slow
def test_files_that_libreoffice_wrote(tmp_path):
    """The Word files as LibreOffice converts them, which has its own ways for controls, charts and input fields.

    It makes an index of kept words, which is translated in this format, so the case of letters is not compared here.
    """
    seeds = list(range(BATCH))
    for seed in seeds:
        (tmp_path / f"{seed}.docx").write_bytes(generated("docx", seed).content)
    converted(tmp_path, "odt", [f"{seed}.docx" for seed in seeds])
    contents = {seed: (tmp_path / f"{seed}.odt").read_bytes() for seed in seeds}
    seeds = [seed for seed in seeds if is_well_formed(contents[seed])]
    assert len(seeds) > 0.9 * BATCH
    words = {}
    for seed in seeds:
        content = contents[seed]
        assert entries(written(content, str, comments=True)) == entries(content)
        (tmp_path / f"{seed}-capitals.odt").write_bytes(written(content))
        before, after = xml_members(content), xml_members(written(content))
        for name in before:
            expected = capitals_of(tokens_of(parsed(before[name])))
            assert in_small_letters(tokens_of(parsed(after[name]))) == in_small_letters(expected)
        root = parsed(before["content.xml"])
        for changes in root.findall(".//{*}tracked-changes"):
            changes.clear()
        texts = "".join(root.itertext())
        words[seed] = [word for word in generated("docx", seed).words.visible if word in texts]
    converted(tmp_path, "pdf", [f"{seed}{end}.odt" for seed in seeds for end in ("", "-capitals")])
    for seed in seeds:
        original, result = (printed_text(tmp_path / f"{seed}{end}.pdf") for end in ("", "-capitals"))
        printed = [composed(word) for word in words[seed] if composed(word) in original]
        assert [word for word in printed if word in result or word.upper() not in result] == []
        assert len(printed) > 20
