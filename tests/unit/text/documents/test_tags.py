from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.documents.markup import Tag, tags_of


def tags(page, **how):
    return [tag for tag in tags_of(page, **how) if tag.raw]


@settings(max_examples=500, deadline=None)
@given(
    st.text("<>/!?-ab= \"'&;[]\n")
    | st.lists(st.sampled_from(["<!--", "-->", "<a b='", '">', "<script>", "</"])).map("".join),
    st.booleans(),
)
def test_nothing_is_lost(page, xml):
    assert "".join(tag.raw for tag in tags_of(page, xml)) == page


@pytest.mark.parametrize("length", range(99_990, 100_002))
@pytest.mark.parametrize(("start", "end"), [("<!--", "-->"), ("<!--", "--!>"), ("<textarea>", "</textarea\n>")])
def test_an_end_is_found_wherever_it_is(start, end, length):
    """Ends are searched in parts of the page."""
    page = f"{start}{'a' * length}{end}<p>" + "<!---->" * 3
    assert [tag.name for tag in tags(page)[-4:]] == ["p", "", "", ""]
    assert len(tags(page)) == 4 + (1 if start == "<!--" else 3)


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("a < b <c", ["text", "other"]),
        ("<p title='a > b' x>t</p >", ["start", "text", "end"]),
        ("<br/><x id=1/></x>", ["empty", "start", "end"]),
        ("<!-- a <b> --!>t<!doctype html><?php ?>", ["other", "text", "other", "other"]),
        ("<script>if (a<b) '</p>'</script >t", ["start", "other", "end", "text"]),
        ("<title>a <b></title>", ["start", "text", "end"]),
        ("t<!-- never closed <b>", ["text", "other"]),
        ("t<a href='never closed>", ["text", "other"]),
        ("&amp; &foo; AT&T", ["text", "empty", "text"]),
    ],
)
def test_kinds(page, kinds):
    assert [tag.kind for tag in tags(page)] == kinds


def test_xml_has_sections_of_its_own():
    page = "<?xml a='>'?><!DOCTYPE a [<!ENTITY b 'c'>]><a><![CDATA[ <b> ]]></a><script>x<i/></script>"
    assert [tag.raw for tag in tags(page, xml=True)][:4] == [
        "<?xml a='>'?>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        "<a>",
        "<![CDATA[ <b> ]]>",
    ]
    assert [tag.kind for tag in tags(page, xml=True)][-3:] == ["text", "empty", "end"]


class Oracle(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append(
            Tag(
                "start",
                self.get_starttag_text(),
                tag,
                tuple((name, value or "") for name, value in attrs if name != "x"),
            )
        )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "B", "x-y", "p"]),
            st.lists(
                st.sampled_from(["class", 'content="<e>"', "Lang='g\"'", "translate=i", "x", 'x="lang=y"', " \n"]),
                unique=True,
            ),
        )
    )
)
def test_attributes_as_the_standard_library_reads_them(elements):
    page = "t".join(f"<{name} {' '.join(attributes)}>" for name, attributes in elements)
    assert [tag for tag in tags(page) if tag.kind == "start"] == Oracle(page).found
