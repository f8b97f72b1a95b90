import re
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.documents.office.document import read_office
from dragoman.text.documents.placement import AlignedPart, insert_markers
from tests.unit.text.documents.office.office_files import A, body_of, docx, member, texts, word_part, written

BOLD = "<w:rPr><w:b/></w:rPr>"


def run(text, properties=""):
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(code, *result):
    def char(kind):
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    return (
        f"{char('begin')}<w:r><w:instrText> {code} </w:instrText></w:r>{char('separate')}{''.join(result)}{char('end')}"
    )


def paragraph(*content):
    return f"<w:p>{''.join(content)}</w:p>"


def capital_letters(xml):
    """The XML with the text of its runs in capitals."""
    return re.sub(r"(?<=>)[^<]+(?=</w:t>)", lambda match: match[0].upper(), xml)


def visible(xml):
    """What a reader sees, in order: characters and elements of runs with their formats, and all other tags."""
    xml = re.sub(r"<w:(?:proofErr|softHyphen|lang)\b[^>]*>", "", xml).replace("<w:rPr></w:rPr>", "")
    found: list[object] = []
    for match in re.finditer(r"<w:r>(<w:rPr>.*?</w:rPr>|)(.*?)</w:r>|<[^>]*>", xml):
        if match[2] is None:
            found.append(match[0])
        for text, tag in re.findall(r"<w:t(?: [^>]*)?>([^<]*)</w:t>|(<.*?>)", match[2] or ""):
            found += [(letter, match[1]) for letter in text] or [(tag, match[1])]
    return found


def translated(*content, **options):
    """The body of a document with one paragraph, after translation."""
    return body_of(written(docx(paragraph(*content), **options)))


def swapped(source, target, links, *content):
    """The body with a translation whose words are linked to those of the source."""
    document = read_office(docx(paragraph(*content)), "file")
    segment = document.segments[0]
    assert segment.text == source

    def spans(text):
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    part = AlignedPart(spans(source), spans(target), np.array(links))
    return body_of(document.write([insert_markers(segment, target, [part], document.escape)]))


def test_runs_that_look_the_same_are_one_text():
    """Word splits runs at every edit. A split inside a word must not reach the translator."""
    body = paragraph(
        '<w:pPr><w:jc w:val="both"/></w:pPr><w:r w:rsidR="1"><w:t>The mod</w:t></w:r><w:proofErr w:type="spellStart"/>',
        '<w:r w:rsidR="2"><w:rPr><w:noProof/><w:lang w:val="en-US"/></w:rPr><w:t>el is go</w:t></w:r>',
        "<w:r><w:lastRenderedPageBreak/><w:t>od</w:t></w:r>",
    )
    content = docx(body)
    assert texts(content) == ["The model is good"]
    assert read_office(content, "file").segments[0].markers == ()
    expected = '<w:p><w:pPr><w:jc w:val="both"/></w:pPr><w:r><w:t>THE MODEL IS GOOD</w:t></w:r></w:p>'
    assert body_of(written(content)) == expected
    assert body_of(written(content, str)) == body


def test_formats_move_with_their_words():
    links = [[1.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]]
    body = swapped("the red car", "la voiture rouge", links, run("the "), run("red", BOLD), run(" car"))
    assert body == paragraph(run("la voiture "), run("rouge", BOLD).replace(' xml:space="preserve"', ""))


@pytest.mark.parametrize(
    "content",
    [
        [run("Hello "), run("bold ", BOLD), run("world")],
        [run("Hello "), run("bold", BOLD), run(" world")],
        [run("Hello"), run(" bold", BOLD), run(" world")],
        [run("Hello"), run(" ", BOLD), run("world")],
        [run("Hello   world")],
        [run("Hello\u00a0"), run("bold\u00a0", BOLD), run("\u00a0world \u00a0 .")],
    ],
)
def test_a_space_keeps_its_format(content):
    assert visible(translated(*content)) == visible(capital_letters(paragraph(*content)))


def test_a_space_that_the_translation_lacks_is_not_written():
    content = run("today "), run("the garden ", BOLD), run("is  here")
    links = [[0, 1.0, 0, 0, 0], [0, 0, 1.0, 0, 0], [0, 0, 0, 1.0, 0], [0, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0]]
    body = swapped("today the garden is here", "the garden is here,today", [*links[:4], [0] * 5, links[4]], *content)
    assert "".join(re.findall(r">([^<]+)</w:t>", body)) == "the garden is  here,today"


def test_a_word_keeps_formats_and_marks_inside():
    low = "<w:rPr><w:vertAlign/></w:rPr>"
    content = run("Pure h"), run("2", low), run("o he"), '<w:bookmarkStart w:id="1"/>', run("re")
    document = read_office(docx(paragraph(*content)), "file")
    assert document.segments[0].text == "Pure h2o here"
    part = AlignedPart([(0, 4), (5, 8), (9, 13)], [(0, 4), (5, 8), (9, 13)], np.eye(3))
    result = document.write([insert_markers(document.segments[0], "PURE H2O HERE", [part])])
    assert visible(body_of(result)) == visible(capital_letters(paragraph(*content)))


def test_a_word_of_another_length_keeps_its_marks():
    content = run("a "), run("wo"), '<w:bookmarkStart w:id="1"/>', run("rd", BOLD)
    body = swapped("a word", "ein langes", [[1.0, 0], [0, 1.0]], *content)
    assert "".join(re.findall(r">([^<]+)</w:t>", body)) == "ein langes"
    assert '<w:bookmarkStart w:id="1"/>' in body


def test_links_and_fields():
    link = '<w:hyperlink r:id="rId1">{}</w:hyperlink>'
    assert translated(run("see "), link.format(run("this page")), run(" now")) == paragraph(
        run("SEE "), link.format(run("THIS PAGE").replace(' xml:space="preserve"', "")), run(" NOW")
    )
    code = 'HYPERLINK "https://example.org/a"'
    body = translated(run("see "), field(code, run("this "), run("page", BOLD)), run(" on "), field("DATE", run("May")))
    assert f"<w:instrText> {code} </w:instrText>" in body
    assert "".join(re.findall(r">([^<]*)</w:t>", body)) == "SEE THIS PAGE ON May"
    assert re.findall(r'CharType="(\w+)"', body) == ["begin", "separate", "end"] * 2
    simple = '<w:fldSimple w:instr=" {} ">{}</w:fldSimple>'
    body = translated(simple.format("PAGE", run("one")), run(" of "), simple.format("HYPERLINK x", run("the book")))
    assert re.findall(r">([^<]*)</w:t>", body) == ["one", " OF ", "THE BOOK"]


def test_a_field_over_several_paragraphs():
    """An index is kept. Entries of a table of contents have the text of their heading, without number and page."""
    begin, end = field("INDEX", "|").split("|")
    body = paragraph(begin, run("Apples, 1")) + paragraph(run("Pears, 2")) + paragraph(run("Plums"), end)
    assert texts(docx(body + paragraph(run("After")))) == ["After"]
    tab = "<w:r><w:tab/></w:r>"
    entry = run("1.2"), tab, run("The end"), tab, field("PAGEREF _Toc1", run("7"))
    begin, end = field("TOC \\o", "|").split("|")
    body = paragraph(begin, *entry) + paragraph(*entry, end) + paragraph(run("The end"))
    assert texts(docx(body)) == ["The end"] * 3
    assert re.findall(r">([^<]*)</w:t>", body_of(written(docx(body)))) == ["1.2", "THE END", "7"] * 2 + ["THE END"]


def test_a_field_without_an_end_hides_no_later_paragraph():
    begin = field("INDEX", "|").split("|")[0]
    assert texts(docx(paragraph(begin, run("Apples")) + paragraph(run("After")))) == ["Apples", "After"]


def test_kept_texts():
    hidden = "<w:rPr><w:vanish/></w:rPr>"
    kept = (
        run("hidden ", hidden),
        "<m:oMath><m:r><w:t>x is y</w:t></m:r></m:oMath>",
        '<w:del w:id="1"><w:r><w:delText>gone</w:delText></w:r></w:del>',
    )
    body = translated(run("a "), *kept, '<w:ins w:id="2">', run("new"), "</w:ins>", run(" end"))
    assert all(one in body for one in kept)
    assert '<w:ins w:id="2"><w:r><w:t>NEW</w:t></w:r></w:ins>' in body
    assert translated(run("no proof ", "<w:rPr><w:vanish w:val='0'/><w:noProof/></w:rPr>"), run("x")).count("NO PROOF")


def test_styles_for_code_and_named_styles_are_kept():
    styles = (
        '<w:style w:styleId="C"><w:name w:val="HTML Code"/></w:style>'
        '<w:style w:styleId="D"><w:name w:val="Mine"/><w:basedOn w:val="C"/></w:style>'
        '<w:style w:styleId="E"><w:name w:val="Brand Name"/></w:style>'
        '<w:style w:styleId="F"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr></w:style>'
    )
    styles = word_part(styles, "styles")
    runs = [run(f"style {name} ", f'<w:rPr><w:rStyle w:val="{name}"/></w:rPr>') for name in "CDEF"]
    code = '<w:p><w:pPr><w:pStyle w:val="D"/></w:pPr>' + run("code") + "</w:p>"
    content = docx(paragraph(run("text "), *runs, run("end")) + code, word__styles=styles)
    assert texts(content) == ["text style E end"]
    assert texts(content, keep_styles=["brand name"]) == ["text end"]
    body = body_of(written(content))
    assert body.count("style C ") == body.count("style D ") == body.count("style F ") == body.count(">code<") == 1


def test_everything_with_text_is_translated():
    box = f"<w:txbxContent>{paragraph(run('box'))}</w:txbxContent>"
    picture = f'<w:drawing><wp:docPr id="1" name="Pic 1" descr="a &quot;red&quot; car" title="Title"/>{box}</w:drawing>'
    fallback = f'<w:pict><v:shape alt="a shape"><v:textpath string="draft"/>{box}</v:shape></w:pict>'
    alternate = f"<mc:AlternateContent><mc:Choice>{picture}</mc:Choice><mc:Fallback>{fallback}</mc:Fallback>"
    body = paragraph(run("around "), f"<w:r>{alternate}</mc:AlternateContent></w:r>", run(" the box"))
    control = '<w:sdt><w:sdtPr><w:alias w:val="x y"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'
    body += control.format(paragraph(run("in "), control.format(run("control")), run(" after")))
    ruby = "<w:r><w:ruby><w:rubyPr/><w:rt>{}</w:rt><w:rubyBase>{}</w:rubyBase></w:ruby></w:r>"
    body += paragraph(run("with "), ruby.format(run("reading"), run("base")), run(" end"))
    note = word_part(
        f'<w:footnote w:id="2">{paragraph("<w:r><w:footnoteRef/></w:r>", run(" note"))}</w:footnote>', "footnotes"
    )
    comments = word_part(f"<w:comment>{paragraph(run('remark'))}</w:comment>", "comments")
    diagram = (
        f'<d:x xmlns:d="urn:d" xmlns:a="{A}"><a:p><a:r><a:rPr lang="en" b="1" dirty="0"/><a:t>Big</a:t></a:r><a:r>'
        '<a:rPr b="1" lang="de"/><a:t> box </a:t></a:r><a:br/><a:r><a:t>two</a:t></a:r><a:endParaRPr/></a:p></d:x>'
    )
    core = '<c:x xmlns:c="urn:c" xmlns:dc="http://purl.org/dc/elements/1.1/">{}<dc:creator>me</dc:creator></c:x>'
    core = core.format("<dc:title>My book</dc:title>")
    content = docx(
        body,
        word__footnotes=note,
        word__comments=comments,
        word__diagrams__data1=diagram,
        word__header1=word_part(paragraph(run("head")), "hdr"),
        docProps__core=core,
    )
    main = [
        "around the box",
        'a "red" car',
        "Title",
        "box",
        "a shape",
        "draft",
        "box",
        "in control after",
        "with base end",
    ]
    found = texts(content)
    assert found[:9] == main
    assert sorted(found[9:]) == ["Big box\ntwo", "My book", "head", "note"]
    assert sorted(set(texts(content, comments=True)) - set(found)) == ["remark"]
    result = written(content)
    assert re.findall(r">([^<]*)</w:t>", member(result)) == (
        ["AROUND ", "BOX", "BOX", " THE BOX", "IN ", "CONTROL", " AFTER", "WITH ", "reading", "BASE", " END"]
    )
    assert 'descr="A &quot;RED&quot; CAR" title="TITLE"' in member(result)
    assert 'name="Pic 1"' in member(result)
    assert member(result, "word/diagrams/data1.xml").count("<a:t>") == 2
    assert "<a:t>BIG BOX</a:t>" in member(result, "word/diagrams/data1.xml").replace("BOX <", "BOX<")
    assert "<dc:title>MY BOOK</dc:title><dc:creator>me<" in member(result, "docProps/core.xml")


def test_a_symbol_has_a_run_of_its_own():
    """LibreOffice shows the text after a symbol in its font, if they share a run."""
    symbol = '<w:r><w:sym w:font="Wingdings" w:char="F04A"/></w:r>'
    assert translated(run("one "), symbol, run(" two")) == paragraph(run("ONE "), symbol, run(" TWO"))


def test_charts_shapes_and_lists_of_choices():
    points = "<c:strCache><c:pt><c:v>North &amp; south</c:v></c:pt></c:strCache><c:numCache><c:pt><c:v>1E2</c:v></c:pt>"
    chart = f'<c:chart xmlns:c="{A.replace("main", "chart")}">{points}</c:numCache></c:chart>'
    shape = (
        f'<w:drawing><a:p xmlns:a="{A}"><a:r><a:rPr b="1"/><a:t>a </a:t></a:r><a:r><a:t>b</a:t></a:r></a:p></w:drawing>'
    )
    choice = (
        '<w:fldChar w:fldCharType="{}"><w:ffData><w:ddList><w:listEntry w:val="yes"/></w:ddList></w:ffData></w:fldChar>'
    )
    body = paragraph(run("c "), f"<w:r>{shape}{choice.format('begin')}{choice.format('end')}</w:r>")
    content = docx(body, word__charts__chart1=chart, word__glossary__document=word_part(paragraph(run("click"))))
    assert sorted(texts(content)) == sorted(["c", "a b", "yes", "yes", "North & south", "click"])
    result = written(content)
    assert member(result, "word/charts/chart1.xml") == chart.replace("North &amp; south", "NORTH &amp; SOUTH")
    assert re.findall("<a:t>[^<]*|listEntry [^/]*", body_of(result)) == [
        "<a:t>A ",
        "<a:t>B",
        *['listEntry w:val="YES"'] * 2,
    ]


def test_other_prefixes_and_encodings():
    body = docx(paragraph(run("one "), run("two", BOLD)))
    main = member(body).replace("w:", "x:").replace(":w=", ":x=").replace("UTF-8", "UTF-16")
    content = docx("", word__document=main.encode("utf-16"))  # type: ignore[arg-type]
    result = member(written(content), encoding="utf-16")
    assert re.findall(r">([^<]*)</x:t>", result) == ["ONE ", "TWO"]
    assert "w:" not in re.sub(r'"[^"]*"', "", result)


POINTS = (
    '<w:bookmarkStart w:id="{}" w:name="b"/>',
    '<w:r><w:footnoteReference w:id="{}"/></w:r>',
    "<w:r><w:tab/></w:r>",
    "<w:r><w:br/></w:r>",
    '<w:r><w:drawing><wp:inline id="{}"/></w:drawing></w:r>',
    '<w:proofErr w:type="spellStart"/>',
    "<w:r><w:rPr><w:vanish/></w:rPr><w:t>KEPT</w:t></w:r>",
    "<w:r><w:softHyphen/></w:r>",
    "<w:sdt><w:sdtPr/><w:sdtContent/></w:sdt>",
    "<w:hyperlink/>",
    '<w:del w:id="{}"><w:r><w:delText>OLD</w:delText></w:r></w:del>',
)
WRAPS = (
    ("<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>KEPT</w:t></w:r></w:rt><w:rubyBase>", "</w:rubyBase></w:ruby></w:r>"),
    ("<w:smartTag>\n<w:smartTagPr/>", " </w:smartTag>"),
    ('<w:hyperlink w:anchor="a">', "</w:hyperlink>"),
    ('<w:ins w:id="7">', "</w:ins>"),
    ("<w:sdt><w:sdtPr/><w:sdtContent>", "</w:sdtContent></w:sdt>"),
    tuple(field('HYPERLINK "u"', "|").split("|")),
    tuple(field("TOC", "|").split("|")),
)
FORMATS = ("", BOLD, "<w:rPr><w:i/></w:rPr>", '<w:rPr><w:lang w:val="de-DE"/></w:rPr>')
RUNS = st.builds(run, st.text("abcde  .,\u00a0\u00e9-4", min_size=1, max_size=9), st.sampled_from(FORMATS)) | st.builds(
    str.format, st.sampled_from(POINTS), st.integers(1, 9)
)
CONTENT = st.recursive(
    st.lists(RUNS, max_size=5).map("".join),
    lambda inner: st.lists(
        inner | st.builds(lambda wrap, inside: wrap[0] + inside + wrap[1], st.sampled_from(WRAPS), inner), max_size=4
    ).map("".join),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(CONTENT, min_size=1, max_size=3))
def test_any_paragraph_is_translated_and_nothing_else_changes(contents):
    body = "".join(map(paragraph, contents))
    content = docx(body)
    assert body_of(written(content, str)) == body
    result = written(content)
    assert visible(body_of(result)) == visible(capital_letters(body))
    document, again = read_office(content, "file"), read_office(result, "file")
    assert [one.markers for one in again.segments] == [one.markers for one in document.segments]
    assert [one.text for one in again.segments] == [one.text.upper() for one in document.segments]


@settings(max_examples=100, deadline=None)
@given(CONTENT, st.randoms(use_true_random=False))
def test_words_in_another_order_lose_no_mark(content, random):
    """A translation in another order has all words, separated as before, and every mark once."""
    file = docx(paragraph(content))
    document = read_office(file, "file")
    translations = []
    for segment in document.segments:
        words = [match.span() for match in re.finditer(r"\S+", segment.text)]
        order = random.sample(range(len(words)), len(words))
        moved = [segment.text[words[number][0] : words[number][1]] for number in order]
        ends = list(accumulate(len(word) + 1 for word in moved))
        spans = [(end - 1 - len(word), end - 1) for end, word in zip(ends, moved, strict=True)]
        part = AlignedPart(words, spans, np.eye(len(words))[order])
        translations.append(insert_markers(segment, " ".join(moved), [part], document.escape))
    result = document.write(translations)

    def words_of(xml):
        xml = re.sub(r"<w:(?:tab|br)/>", "<w:t> </w:t>", xml.replace("KEPT", ""))
        return sorted(re.findall(r"\w+|[^\w\s]", "".join(re.findall(r"<w:t(?: [^>]*)?>([^<]*)</w:t>", xml))))

    def marks(xml):
        return Counter(one for one in visible(xml) if isinstance(one, str) or one[0].startswith("<"))

    assert marks(body_of(result)) == marks(paragraph(content))
    assert words_of(body_of(result)) == words_of(paragraph(content))
