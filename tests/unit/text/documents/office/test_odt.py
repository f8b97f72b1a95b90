import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.documents.office.document import read_office
from tests.unit.text.documents.office.office_files import archive_of, body_of, member, odt, open_part, texts, written

STYLES = (
    '<style:style style:name="Preformatted_20_Text" style:display-name="Preformatted Text" style:family="paragraph"/>'
    '<style:style style:name="T1" style:family="text"><style:text-properties x:rsid="1" fo:language="a"/></style:style>'
    '<style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>'
    '<style:style style:name="T3" style:family="text"><style:text-properties text:display="none"/></style:style>'
    '<style:style style:name="P9" style:family="paragraph" style:parent-style-name="Preformatted_20_Text"/>'
)


def span(style, text):
    return f'<text:span text:style-name="{style}">{text}</text:span>'


def result_of(body, **options):
    content = odt(body, STYLES)
    assert body_of(written(content, str, **options)) == body
    return body_of(written(content, **options))


def test_paragraphs_with_spans_and_links():
    link = '<text:a xlink:href="http://a.b/c">{}<text:s text:c="2"/>{}</text:a>'
    body = (
        f'<text:h text:outline-level="1">A {span("T1", "hea")}ding</text:h>'
        f"<text:p>see  {span('T2', 'bold ')}and\n {link.format('the &quot;', 'page')}</text:p>"
        "<text:list><text:list-item><text:p>item<text:line-break/>two<text:tab/>three</text:p></text:list-item>"
    )
    assert texts(odt(f"{body}</text:list>", STYLES)) == ["A heading", 'see bold and the " page', "item\ntwo\nthree"]
    expected_link = link.format('THE "', "PAGE")
    expected = (
        '<text:h text:outline-level="1">A HEADING</text:h>'
        f"<text:p>SEE {span('T2', 'BOLD ')}AND {expected_link}</text:p>"
        "<text:list><text:list-item><text:p>ITEM<text:line-break/>TWO<text:tab/>THREE</text:p></text:list-item>"
    )
    assert result_of(f"{body}</text:list>") == f"{expected}</text:list>"


def test_notes_pictures_and_boxes_are_texts_of_their_own():
    note = (
        '<text:note text:note-class="footnote"><text:note-citation>i</text:note-citation><text:note-body>'
        "<text:p>{}</text:p></text:note-body></text:note>"
    )
    frame = "<draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box><svg:title>{}</svg:title></draw:frame>"
    body = f"<text:p>word{note} and {frame} end</text:p><text:p>{frame}</text:p>"
    content = odt(body.format("a note", "box", "title", "second", "alt"))
    assert texts(content) == ["word and end", "a note", "box", "title", "second", "alt"]
    expected = body.replace("word", "WORD").replace(" and ", " AND ").replace(" end", " END")
    assert body_of(written(content)) == expected.format("A NOTE", "BOX", "TITLE", "SECOND", "ALT")


@pytest.mark.parametrize(
    "kept",
    [
        "<text:date>5. may</text:date>",
        span("T3", "hidden"),
        '<text:span x:translate="no">NO <text:span>way</text:span></text:span>',
        '<text:change text:change-id="c"/>',
        "<office:annotation><dc:creator>me</dc:creator><text:p>remark</text:p></office:annotation>",
        '<text:bookmark-start text:name="b"/>',
    ],
)
def test_kept_parts(kept):
    body = f"<text:p>one {kept} two</text:p><text:p>th{kept}ree</text:p>"
    assert texts(odt(body, STYLES)) == ["one two", "three"]
    assert result_of(body) == f"<text:p>ONE {kept} TWO</text:p><text:p>TH{kept}REE</text:p>"


def test_code_and_deleted_text_are_kept():
    deleted = "<text:tracked-changes><text:changed-region><text:deletion><text:p>old</text:p></text:deletion>"
    deleted += "</text:changed-region></text:tracked-changes>"
    code = '<text:p text:style-name="P9">x = y</text:p>'
    assert result_of(deleted + code + "<text:p>new</text:p>") == deleted + code + "<text:p>NEW</text:p>"


def test_comments_headers_and_the_title():
    comment = "<office:annotation><dc:creator>me</dc:creator><text:p>remark</text:p></office:annotation>"
    meta = '<m:m xmlns:m="urn:m" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>My title</dc:title></m:m>'
    content = odt(f"<text:p>a{comment} b</text:p>", styles=open_part("<text:p>head</text:p>"), meta=meta)
    assert texts(content) == ["a b", "head", "My title"]
    assert texts(content, comments=True) == ["a b", "remark", "head", "My title"]
    result = written(content, comments=True)
    assert body_of(result) == f"<text:p>A{comment} B</text:p>".replace("remark", "REMARK")
    assert "<dc:title>MY TITLE</dc:title>" in member(result, "meta.xml")


def test_controls_cells_and_objects():
    """A chart is an object with its own file. So is a formula, whose file may declare a document type."""
    choices = '<loext:list-item loext:display-text="{}" loext:value="v"/>'
    control = (
        f"<loext:content-control>{choices}{{}}</loext:content-control> and <text:text-input>{{}}</text:text-input>"
    )
    cell = '<table:table-cell office:value-type="{}"{}><text:p>{}</text:p></table:table-cell>'
    body = f"<text:p>a {control} b</text:p>" + cell.format("string", ' office:string-value="{}"', "{}")
    body += cell.format("float", "", "1E+9") + '<form:checkbox form:label="{}" form:name="n"/>'
    names = "yes", "no", "name", "cell", "cell", "label"
    xml = open_part(body.format(*names)).replace("xmlns:x=", 'xmlns:loext="urn:l" xmlns:form="urn:f" xmlns:x=')
    formula = '<!DOCTYPE math:math PUBLIC "x" "math.dtd"><math:math xmlns:math="urn:m"/>'
    members = {"content.xml": open_part(""), "Object 1/content.xml": xml, "Object 2/content.xml": formula}
    content = archive_of(members)
    assert sorted(texts(content)) == sorted(["a no and name b", "yes", "cell", "cell", "label"])
    result = member(written(content), "Object 1/content.xml")
    assert (
        body.format(*map(str.upper, names)).replace("a <", "A <").replace(" and ", " AND ").replace(" b<", " B<")
        in result
    )
    assert member(written(content), "Object 2/content.xml") == formula


TEXTS = st.text("abc .,\u00a0é&-\n", max_size=6).map(lambda text: text.replace("&", "&apos;"))
POINTS = st.sampled_from(
    (
        "<text:s/>",
        "<text:tab/>",
        '<text:bookmark text:name="b"/>',
        "<text:note><text:p>x</text:p></text:note>",
        "<text:date>now</text:date>",
        "<text:soft-page-break/>",
        "<!-- c -->",
    )
)
CONTENT = st.recursive(
    TEXTS | POINTS,
    lambda inner: (
        st.builds(span, st.sampled_from(["T1", "T2", "T3"]), inner)
        | st.lists(inner, max_size=5).map("".join)
        | inner.map(
            "<text:ruby> <text:ruby-base>{}</text:ruby-base><text:ruby-text>K</text:ruby-text></text:ruby>".format
        )
        | inner.map('<text:a xlink:href="u">{}</text:a>'.format)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(CONTENT, min_size=1, max_size=3))
def test_any_paragraph_is_translated_and_nothing_else_changes(contents):
    body = "".join(f"<text:p>{content}</text:p>" for content in contents)
    result = result_of(body)
    document, again = read_office(odt(body, STYLES), "file"), read_office(odt(result, STYLES), "file")
    assert [one.text for one in again.segments] == [one.text.upper() for one in document.segments]
    assert [one.markers for one in again.segments] == [one.markers for one in document.segments]

    def tags(xml):
        xml = re.sub(r"<text:soft-page-break/>|<!-- c -->", "", xml)
        hidden = re.compile(r'<text:span text:style-name="T1">((?:(?!</?text:span).)*)</text:span>', re.DOTALL)
        while hidden.search(xml):
            xml = hidden.sub(r"\1", xml)
        return re.findall("<[^>]*>", xml)

    kept = re.compile(r'<text:span text:style-name="T[23]">')
    if not kept.search(body):
        assert tags(result) == tags(body)
