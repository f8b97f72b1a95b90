"""White space around text that the translator does not see."""

import re

import pytest

from dragoman.text.documents.office.document import read_office
from tests.unit.text.documents.office.office_files import body_of, docx, word_part

STYLE = '<w:style w:styleId="Code"><w:name w:val="Code"/></w:style>'


def runs(text: str) -> str:
    """A paragraph in which `text` between backticks has a style for code."""
    properties = '<w:rPr><w:rStyle w:val="Code"/></w:rPr>'
    parts = [
        f'<w:r>{properties * (number % 2)}<w:t xml:space="preserve">{part}</w:t></w:r>'
        for number, part in enumerate(text.split("`"))
        if part
    ]
    return f"<w:p>{''.join(parts)}</w:p>"


def shown(body: str) -> str:
    return re.sub("<[^>]*>", "", body)


@pytest.mark.parametrize(
    ("source", "text", "translation", "written"),
    [
        ("Please add `-x` and go.", "Please add and go.", "Bitte fügen Sie <0/> hinzu.", "Bitte fügen Sie -x hinzu."),
        ("Please use `-x`, or go.", "Please use, or go.", "Bitte <0/> oder los.", "Bitte -x oder los."),
        ("It is `-x`.", "It is.", "Es ist <0/>.", "Es ist -x."),
        ("Use `-x` (now).", "Use (now).", "Nimm (jetzt) <0/>.", "Nimm (jetzt) -x."),
        ("A`-x`B text", "AB text", "<0>AB</0> Text", "A-xB Text"),
        ("Use `-x` `-y` now.", "Use now.", "Nimm <0/> <1/> jetzt.", "Nimm -x -y jetzt."),
    ],
)
def test_kept_text_has_spaces_as_words_have(source: str, text: str, translation: str, written: str) -> None:
    document = read_office(docx(runs(source), word__styles=word_part(STYLE, "styles")), "a.docx")
    assert [segment.text for segment in document.segments] == [text]
    assert shown(body_of(document.write([translation]))) == written
