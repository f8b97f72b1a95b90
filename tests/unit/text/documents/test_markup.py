import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup, update_declarations
from dragoman.text.documents.placement import insert_markers

HTML, XML = MarkupRules(), MarkupRules(xml=True, ignore_tags=("k",), splitting_tags=("s",))
PARTS = [
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<i class=x>",
    "</i>",
    "word",
    " ",
    "&lt;b&gt;",
    "&amp;",
    "<br>",
    "<!-- c -->",
    "12",
]
PARTS += [
    "<code>k</code>",
    '<x id="1"/>',
    "<",
    "<script>",
    "</script>",
    "<pre>",
    "</pre>",
    '<p translate="no">',
    "<a b='",
]


def texts(page, rules=HTML):
    return [marked.text for marked in read_markup(page, rules).texts]


def copied(page, rules=HTML):
    """The page with every text translated separately."""
    read = read_markup(page, rules)
    return read.with_translations([insert_markers(text, text.text, [], escape_text) for text in read.texts])


def test_blocks_are_texts():
    page = "<h1>One &amp; all</h1>\n<p>Two <b>big <i>dogs</i></b>\n  run.<br>Three</p><td>4 %</td>tail"
    assert texts(page) == ["One & all", "Two big dogs run.", "Three", "tail"]
    markers = read_markup(page, HTML).texts[1].markers
    assert [(marker.head, marker.tail, marker.start, marker.stop, marker.parent) for marker in markers] == [
        ("<b>", "</b>", 4, 12, -1),
        ("<i>", "</i>", 8, 12, 0),
    ]


@pytest.mark.parametrize(
    "page",
    [
        "",
        " \r\n",
        "<!DOCTYPE html>\n<p>12 &amp; 3</p><!-- words --><br/>",
        "<script>var a = 'words'</script><style>p {}</style><pre>words &amp; more</pre><textarea>words</textarea>",
        "<p translate='no'>words <b>words</b></p><div class='a notranslate'>words<div>words</div></div>",
        "<p title='words'></p><a href='words",
    ],
)
def test_what_is_left_alone(page):
    assert texts(page) == []
    assert copied(page) == page


def test_what_is_left_alone_inside_a_sentence_is_a_point():
    (text,) = read_markup('Run <code>rm -rf</code> now, <span class="notranslate">Tom</span>.', HTML).texts
    assert text.text == "Run now,."
    assert [marker.head for marker in text.markers] == ["<code>rm -rf</code>", '<span class="notranslate">Tom</span>']


def test_tags_that_are_not_nested_stay_where_they_are():
    page = "<p>one <b>two <i>three</b> four</i> five</p>"
    assert texts(page) == ["one", "two", "three", "four", "five"]
    assert copied(page) == page


@pytest.mark.parametrize("page", ["<p>one &#{}; two</p>", "one <b>two</b> &#{};"])
def test_a_reference_to_no_character_stays_text(page: str) -> None:
    (text,) = read_markup(page.format("1" * 5000), HTML).texts
    assert "one" in text.text
    assert "1" * 5000 in text.text


def test_escaped_text_stays_escaped():
    assert texts("<p>&lt;script&gt; a &#60;b&#62; &amp;lt; &nope;</p>") == ["<script> a <b> &lt;"]
    assert copied("<p>&lt;script&gt; a &#60;b> &amp;lt;</p>") == "<p>&lt;script&gt; a &lt;b&gt; &amp;lt;</p>"


def test_xml():
    page = '<s>One <x id="1"></x> two <k>three</k></s><p>four</p><![CDATA[five]]>'
    assert texts(page, XML) == ["One two", "four"]
    assert [marker.head for marker in read_markup(page, XML).texts[0].markers] == ['<x id="1"></x>', "<k>three</k>"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=20).map("".join), st.sampled_from([HTML, XML]))
def test_a_copied_page_has_the_same_tags_and_letters(page, rules):
    output = copied(page, rules)
    pattern = r"</?[a-z!][^<>]*>"
    assert sorted(re.findall(pattern, output)) == sorted(re.findall(pattern, page))
    assert output.count("word") == page.count("word")
    assert output.count("&lt;b&gt;") == page.count("&lt;b&gt;")


def test_tags_too_deep_are_translated_run_by_run() -> None:
    page = "<p>" + "<b>" * 1000 + "Hi. " * 1000 + "</b>" * 1000
    found = read_markup(page, HTML)
    assert found.with_translations([text.text for text in found.texts]) == page
    assert all(not text.markers for text in found.texts)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<meta charset=iso-8859-1>", "<meta charset=utf-8>"),
        ('<META CHARSET = "Windows-1252" />', '<META CHARSET = "utf-8" />'),
        ("<meta charset='UTF8'>", "<meta charset='UTF8'>"),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">',
            '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">',
        ),
        ("<meta name=a content='charset=latin1'>", "<meta name=a content='charset=latin1'>"),
        ('<meta http-equiv=content-language content="en">', '<meta http-equiv=content-language content="de">'),
        ('<?xml version="1.0" encoding="ISO-8859-1"?>', '<?xml version="1.0" encoding="utf-8"?>'),
        ('<html lang="en" xml:lang="en">', '<html lang="de" xml:lang="de">'),
        ("<html title='lang=en' lang=en-US>", "<html title='lang=en' lang=de>"),
        ("<html lang=cs>", "<html lang=de>"),
        ("<html lang='de-AT'>", "<html lang='de-AT'>"),
        ("<html>", "<html>"),
        ("<p lang=en-GB>one</p>", "<p lang=de>one</p>"),
        ("<p lang=fr>un</p>", "<p lang=fr>un</p>"),
        ("<p>lang=en charset=latin1</p>", "<p>lang=en charset=latin1</p>"),
        ("<pre lang=en>one</pre>", "<pre lang=en>one</pre>"),
        ("<p translate=no lang=en>one <b lang=en>two</b></p>", "<p translate=no lang=en>one <b lang=en>two</b></p>"),
        ("<a hreflang=en data-lang=en>x</a>", "<a hreflang=en data-lang=en>x</a>"),
        ("<!-- <html lang=en> -->", "<!-- <html lang=en> -->"),
    ],
)
def test_declarations_are_those_of_the_translation(tag, expected):
    assert update_declarations(f"a {tag} b", "en", "de") == f"a {expected} b"


@given(st.lists(st.sampled_from([*PARTS, "<html lang=en>", "<p lang='en'>", "<meta charset=latin1>"])))
def test_only_declarations_change(parts):
    page = "".join(parts)
    written = update_declarations(page, "en", "de")
    assert update_declarations(written, "en", "de") == written
    assert texts(written) == texts(page)
    assert update_declarations(page.replace("latin1", "utf-8"), "en", "") == page.replace("latin1", "utf-8")
