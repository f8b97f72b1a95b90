"""What the files of other programs have, and what their readers expect of it."""

import pytest

from dragoman.text.documents.office.document import read_office
from tests.unit.text.documents.office.office_files import (
    archive_of,
    body_of,
    docx,
    member,
    odt,
    open_part,
    texts,
    word_part,
    written,
)

_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*content: str) -> str:
    return f"<w:p>{''.join(content)}</w:p>"


def char(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def field(code: str, *result: str, end: str = char("end")) -> str:
    return f"{char('begin')}<w:r><w:instrText> {code} </w:instrText></w:r>{char('separate')}{''.join(result)}{end}"


def notes_of(content: bytes, *keep_styles: str) -> list[str]:
    return [note.removeprefix("my.docx: ") for note in read_office(content, "my.docx", keep_styles=keep_styles).notes]


@pytest.mark.parametrize("name", ["word/document.xml", "Word/Document.XML"])
@pytest.mark.parametrize(
    "types",
    [
        f'<Default Extension="xml" ContentType="{_MAIN}"/>',
        f'<Default Extension="XML" ContentType="x"/><Override PartName="/word/DOCUMENT.xml" ContentType="{_MAIN}"/>',
    ],
)
def test_the_type_of_a_part_is_its_own_or_that_of_its_extension(types: str, name: str) -> None:
    content = archive_of({"[Content_Types].xml": f"<Types>{types}</Types>", name: word_part(paragraph(run("one")))})
    assert "ONE" in member(written(content), name)


def test_fields_with_words_of_the_author_are_translated() -> None:
    for code in ("FORMTEXT", 'IF 1 = 1 "a" "b"', "INCLUDETEXT x.docx", "FILLIN", 'XE "word"'):
        assert texts(docx(paragraph(run("Name: "), field(code, run("my words"))))) == ["Name: my words"]
    assert texts(docx(paragraph(run("See "), field("REF x", run("Figure one")), run(" now.")))) == ["See now."]


def test_a_field_that_ends_in_a_deletion_hides_nothing() -> None:
    end = f'<w:del w:id="1">{char("end")}</w:del>'
    body = paragraph(run("a "), field("REF x", run("kept"), end=end), run(" rest")) + paragraph(run("next"))
    assert texts(docx(body))[-1] == "next"


def test_text_that_is_shown_again_by_hand_is_translated() -> None:
    styles = word_part('<w:style w:styleId="H"><w:name w:val="H"/><w:rPr><w:vanish/></w:rPr></w:style>', "styles")
    hidden = '<w:rPr><w:rStyle w:val="H"/>{}</w:rPr>'
    body = paragraph(run("one ", hidden.format("")), run("two", hidden.format('<w:vanish w:val="0"/>')))
    assert texts(docx(body, word__styles=styles)) == ["two"]


def test_a_plain_text_in_an_office_file_is_not_code() -> None:
    """LibreOffice gives all paragraphs of a .txt file the style of code."""
    styles = word_part('<w:style w:styleId="P"><w:name w:val="Preformatted Text"/></w:style>', "styles")
    style = '<w:pPr><w:pStyle w:val="P"/></w:pPr>'
    letter = docx(paragraph(style, run("Dear reader")) * 2 + paragraph(run("one")), word__styles=styles)
    assert texts(letter) == ["Dear reader", "Dear reader", "one"]
    assert notes_of(letter) == []
    guide = docx(paragraph(style, run("x = y")) + paragraph(run("one")) * 2, word__styles=styles)
    assert texts(guide) == ["one", "one"]
    assert notes_of(guide) == ["paragraphs left as they are, because of their styles: 1."]
    named = '<style:style style:name="Preformatted_20_Text" style:family="paragraph"/>'
    text = '<text:p text:style-name="Preformatted_20_Text">Dear reader</text:p>'
    assert texts(odt(text * 2, named)) == ["Dear reader"] * 2
    assert texts(odt(text + "<text:p>one</text:p>" * 2, named)) == ["one"] * 2


def test_a_paragraph_with_nothing_but_kept_runs_is_counted() -> None:
    styles = word_part('<w:style w:styleId="C"><w:name w:val="Source Text"/></w:style>', "styles")
    code = '<w:rPr><w:rStyle w:val="C"/></w:rPr>'
    body = (
        paragraph(run("x = y", code))
        + paragraph(run("one "), run("x", code))
        + paragraph()
        + paragraph(run("12", code))
    )
    guide = read_office(docx(body, word__styles=styles), "my.docx")
    assert [segment.text for segment in guide.segments] == ["one"]
    assert (guide.num_kept, guide.notes) == (1, ["my.docx: paragraphs left as they are, because of their styles: 1."])
    named = '<style:style style:name="Source_20_Text" style:family="text"/>'
    span = '<text:span text:style-name="Source_20_Text">x = y</text:span>'
    note = read_office(odt(f"<text:p>{span}</text:p><text:p>one {span}</text:p><text:p/>", named), "my.odt")
    assert ([segment.text for segment in note.segments], note.num_kept) == (["one"], 1)


def test_a_style_that_should_be_kept_and_is_not_there_is_a_note() -> None:
    assert notes_of(docx(paragraph(run("one"))), "Kode") == ["no style has the name 'Kode', which should be kept."]


def test_a_name_of_a_style_means_one_thing_for_each_kind_of_element() -> None:
    hidden = (
        '<style:style style:name="T2" style:family="text"><style:text-properties text:display="none"/></style:style>'
    )
    cell = "<table:table-cell><text:p>cell</text:p></table:table-cell>"
    table = f'<table:table table:style-name="T2"><table:table-row>{cell}</table:table-row></table:table>'
    body = f'{table}<text:p>one <text:span text:style-name="T2">hidden</text:span></text:p>'
    head = '<text:p>head <text:span text:style-name="T2">shown</text:span></text:p>'
    other = open_part(head, hidden.replace("none", "true"))
    assert texts(odt(body, hidden, styles=other)) == ["cell", "one", "head shown"]


def test_tabs_and_short_lines_end_sentences() -> None:
    tab, line = "<w:r><w:tab/></w:r>", "<w:r><w:br/></w:r>"
    form = paragraph(run("Name:"), tab, run("Anna"), tab, run("Date:"))
    address = paragraph(run("Acme Ltd"), line, run("12 High Street"), line, run("London"))
    long = paragraph(
        run("This is a sentence that the author has broken "), line, run("by hand in its middle, for the looks.")
    )
    assert texts(docx(form + address + long)) == [
        "Name:\nAnna\nDate:",
        "Acme Ltd\n12 High Street\nLondon",
        "This is a sentence that the author has broken by hand in its middle, for the looks.",
    ]
    document = read_office(docx(form), "my.docx")
    result = document.write(["Name:\n<0/>Anna<1/>\nDatum:"])
    expected = form.replace("Date:", "Datum:").replace(' xml:space="preserve"', "")
    assert body_of(result).replace(' xml:space="preserve"', "") == expected, "the tab is the space"


def test_texts_that_are_no_words_stay() -> None:
    tab = "<w:r><w:tab/></w:r>"
    raised = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
    assert texts(docx(paragraph(run("Phone"), tab, run("+49 30 1234"), tab, run("Mobile")))) == ["Phone\nMobile"]
    assert texts(docx(paragraph(run("(a)"), tab, run("The tenant pays.")))) == ["The tenant pays."]
    assert texts(docx(paragraph(run("(a)"), tab, run("(b)")))) == ["(a)\n(b)"], "nothing but labels"
    assert texts(docx(paragraph(run("Name: ________ Date: ....... (both)")))) == ["Name: Date: (both)"]
    note = paragraph(run("A dog"), run("1", raised), run(" runs."))
    assert texts(docx(note)) == ["A dog runs."]
    assert body_of(written(docx(note), str)) == note


def test_word_does_not_put_the_old_text_back() -> None:
    """Word fills a bound control with a property of the document when it opens a file."""
    control = '<w:sdt><w:sdtPr><w:dataBinding w:xpath="x"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'
    content = docx(control.format(paragraph(run("one"))))
    assert "dataBinding" not in body_of(written(content))
    assert body_of(written(content, str)) == body_of(content)


def test_names_of_pictures_are_not_texts() -> None:
    picture = '<w:r><w:drawing><wp:docPr id="1" descr="{}"/></w:drawing></w:r>'
    for text, found in (
        ("Our Logo.JPG", []),
        ("https://example.org/a b", ["https://example.org/a b"]),
        ("A dog", ["A dog"]),
    ):
        assert texts(docx(paragraph(picture.format(text)))) == found


def test_text_from_other_files_is_a_note() -> None:
    content = docx(paragraph(run("one")) + '<w:altChunk r:id="x"/>')
    assert ["text that was inserted from another file is left as it is." in note for note in notes_of(content)] == [
        True
    ]
