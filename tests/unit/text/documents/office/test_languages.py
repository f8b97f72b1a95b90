import re

import pytest

from dragoman.text.documents.office.document import read_office
from dragoman.text.documents.office.languages import declare_open, declare_word
from tests.unit.text.documents.office.office_files import capitals, docx, member, odt, open_part, translate, word_part

LANG = '<w:lang w:val="{}" w:eastAsia="{}" w:bidi="{}"/>'
STYLES = word_part(
    f"<w:docDefaults><w:rPr>{LANG.format('fr-FR', 'zh-CN', 'ar-SA')}</w:rPr></w:docDefaults>"
    f'<w:style w:styleId="A"><w:rPr>{LANG.format("fr-FR", "zh-CN", "ar-SA")}</w:rPr></w:style>',
    "styles",
)


def translated(content, src_lang, tgt_lang):
    document = read_office(content, "file")
    translations = [translate(segment, document, capitals) for segment in document.segments]
    return document.write(translations, (src_lang, tgt_lang))


def test_a_word_file_declares_the_language_of_its_translation():
    """Text in a third language keeps its own."""
    english = '<w:r><w:rPr><w:lang w:val="en-US"/></w:rPr><w:t>1</w:t></w:r>'
    french = english.replace("en-US", "fr")
    content = docx(f"<w:p>{english}{french}</w:p>", word__styles=STYLES)
    result = translated(content, "en", "de")
    assert re.findall('lang w:val="([^"]*)"', member(result)) == ["de-DE", "fr"]
    assert re.findall("<w:lang.*?/>", member(result, "word/styles.xml")) == [
        LANG.format("de-DE", "zh-CN", "ar-SA"),
        LANG.format("fr-FR", "zh-CN", "ar-SA"),
    ]
    styles = member(translated(content, "en", "ja"), "word/styles.xml")
    assert re.findall("<w:lang.*?/>", styles) == [LANG.format("fr-FR", "ja-JP", "ar-SA")] * 2


def test_text_of_drawings_declares_its_language_too():
    body = '<a:rPr lang="en-US" b="1"/><a:endParaRPr lang="fr-FR"/><a:bodyPr lang="en-US"/>'
    assert declare_word(body, "en", "de") == body.replace('a:rPr lang="en-US"', 'a:rPr lang="de-DE"')


def test_a_translation_into_arabic_runs_from_right_to_left():
    """The new properties stand where the schema of Word wants them."""
    numbers = "<w:numPr>\n<w:numId/> </w:numPr>"
    body = (
        f'<w:p><w:pPr><w:pStyle w:val="A"/>{numbers}<w:jc w:val="both"/></w:pPr><w:r><w:t>one</w:t></w:r></w:p>'
        '<w:p w:rsidR="1"> <w:pPr/><w:r w:rsidR="1"><w:rPr><w:b/><w:em/></w:rPr><w:t>two</w:t></w:r></w:p><w:p/>'
        '<w:tbl><w:tblPr><w:tblStyle w:val="T"/><w:jc w:val="x"/></w:tblPr></w:tbl>'
        '<w:sectPr w:rsidR="1"><w:cols/><w:docGrid/></w:sectPr><w:sectPr/>'
    )
    written = declare_word(body, "en", "ar")
    assert written == (
        f'<w:p><w:pPr><w:pStyle w:val="A"/>{numbers}<w:bidi/><w:jc w:val="both"/></w:pPr><w:r><w:rPr><w:rtl/></w:rPr>'
        "<w:t>one</w:t></w:r></w:p>"
        '<w:p w:rsidR="1"> <w:pPr><w:bidi/></w:pPr><w:r w:rsidR="1"><w:rPr><w:b/><w:bCs/><w:rtl/><w:em/></w:rPr>'
        "<w:t>two</w:t></w:r></w:p><w:p/>"
        '<w:tbl><w:tblPr><w:tblStyle w:val="T"/><w:bidiVisual/><w:jc w:val="x"/></w:tblPr></w:tbl>'
        '<w:sectPr w:rsidR="1"><w:cols/><w:bidi/><w:docGrid/></w:sectPr><w:sectPr/>'
    )
    back = declare_word(written, "ar", "en")
    assert "<w:bidi/>" not in back
    assert "<w:rtl/>" not in back
    assert declare_word(written, "he", "ar") == written


@pytest.mark.parametrize(
    ("tgt_lang", "expected"),
    [("de", ["de", "DE", "zh", "CN"]), ("pt-PT", ["pt", "PT", "zh", "CN"]), ("ja", ["en", "US", "ja", "JP"])],
)
def test_an_open_document_declares_the_language_of_its_translation(tgt_lang, expected):
    properties = (
        '<style:text-properties fo:language="{}" fo:country="{}" style:language-asian="{}" style:country-asian="{}"/>'
    )
    styles = open_part("", f"<style:style>{properties.format('en', 'US', 'zh', 'CN')}</style:style>")
    result = translated(odt("<text:p>a</text:p>", styles=styles), "en", tgt_lang)
    assert properties.format(*expected) in member(result, "styles.xml")


def test_an_open_document_in_hebrew_is_aligned_to_the_right():
    style = '<style:default-style style:family="paragraph"><style:paragraph-properties{}/></style:default-style>'
    other = '<style:paragraph-properties fo:text-align="{}"/><style:paragraph-properties fo:text-align="center"/>'
    written = declare_open(style.format("") + other.format("end"), "en", "he")
    assert written == style.format(' fo:text-align="right"') + other.format("left")
    assert declare_open(written, "he", "en") == style.format(' fo:text-align="left"') + other.format("right")
    assert declare_open(written, "he", "ar") == written


def test_an_open_document_in_hebrew_runs_from_right_to_left():
    mode = '<style:page-layout-properties style:writing-mode="lr-tb"/>'
    assert declare_open(mode, "en", "he") == mode.replace("lr-tb", "rl-tb")
    assert declare_open(mode.replace("lr-tb", "rl-tb"), "he", "en") == mode


def test_bold_italic_and_size_hold_in_both_directions():
    run = '<w:r><w:rPr><w:b w:val="0"/><w:bCs/><w:i/><w:sz w:val="28"/></w:rPr></w:r>'
    written = declare_word(run, "en", "ar")
    assert '<w:b w:val="0"/><w:bCs/><w:i/><w:iCs/><w:sz w:val="28"/><w:szCs w:val="28"/>' in written
    properties = '<style:text-properties fo:font-weight="bold" fo:font-size="9pt" style:font-size-complex="8pt"/>'
    declared = declare_open(properties, "en", "ar")
    assert declared == properties.replace('"bold"', '"bold" style:font-weight-complex="bold"')
    assert declare_open(properties, "en", "de") == properties


def test_a_language_without_a_territory_or_of_ones_own():
    tag = '<w:lang w:val="en-US"/>'
    assert declare_word(tag, "en", "x-mine") == tag.replace("en-US", "x-mine")
