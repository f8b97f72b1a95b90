import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.placement import AlignedPart, insert_markers
from dragoman.text.documents.protected_spans import find_protected_spans, lost_spans, remove_protected_spans

PIECES = [
    "https://a.b/c_(d)?x=1&y=2",
    "{name}",
    "%(n)d",
    "%s",
    '<x id="1"/>',
    "12.50 €",
    "info@ex-am.co.uk",
    "{{ a b }}",
    "{n,plural,one{#}other{##}}",
]
WORDS = ["Two", "dogs", "run", "(fast)", "home,", "über"]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("See https://a.b/c_(d)?x=1&y=2. Or (http://x.y/z), bob.s@ex-am.co.uk!", None),
        ("Hi {name}, %s of %(n)d for ${who}: {{ x y }}", ["{name}", "%s", "%(n)d", "${who}", "{{ x y }}"]),
        ('<x id="1"/> <b>bold</b> a < b > c &amp; d', ['<x id="1"/>', "<b>", "</b>", "&amp;"]),
        ("3.5 km at 20 °C for $5.00. €3 and 50%, 5 men, 100%ig", ["3.5 km", "20 °C", "$5.00", "€3", "50%"]),
        ("Figure 1. A dog runs 3 m. Step 2. W or 3.5 W", ["3 m", "3.5 W"]),
        ("www.foo.org/bar, mailto:a@b.de", ["www.foo.org/bar", "mailto:a@b.de"]),
        ("no pieces: a.b, 1990, {, %, @home, <3", []),
        (
            "{n, plural, =0 {none} other {# of {max}}} {a, b} {n, plural, {",
            ["{n, plural, =0 {none} other {# of {max}}}"],
        ),
        (
            "{ name } {who, select, a {it''s '{' {x, date, short}} other {}}",
            ["{ name }", "{who, select, a {it''s '{' {x, date, short}} other {}}"],
        ),
    ],
)
def test_what_is_a_protected_span(text, spans):
    spans = spans if spans is not None else ["https://a.b/c_(d)?x=1&y=2", "http://x.y/z", "bob.s@ex-am.co.uk"]
    assert [span.text for span in find_protected_spans(text)] == spans


def test_spans_are_missed_when_lost_doubled_or_changed():
    spans = find_protected_spans("{a} and {b} run 3.5 km")
    assert lost_spans(spans, "{b} und {a} laufen 3,5 km") == []
    assert lost_spans(spans, "{b} und {b} laufen 3,6 km") == ["{a}", "{b}", "3.5 km"]


@pytest.mark.parametrize("part", ["{n, plural, ", "{a,select,'{", "{n,plural,{{", "{n, plural, one { x ", "{ a", "'{"])
def test_unclosed_messages_take_linear_time(part):
    assert find_protected_spans(part * 50_000) == []  # quadratic time would exceed the test's time limit


def identical(text):
    """The alignment of a text with itself, word by word."""
    spans, place = [], 0
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        spans.append((start, place))
    return AlignedPart(spans, spans, np.eye(len(spans)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES + WORDS), max_size=12))
def test_spans_come_back_where_they_were(parts):
    text = " ".join(parts)
    marked = remove_protected_spans(MarkedText(text, ()))
    assert not find_protected_spans(marked.text)
    back = insert_markers(marked, marked.text, [identical(marked.text)] if marked.text.split() else [])
    assert back.split() == text.split()


@settings(max_examples=300, deadline=None)
@given(st.text("a1.@%{}<>&;/:( )€s-", max_size=60))
def test_nothing_is_lost_without_an_alignment(text):
    marked = remove_protected_spans(MarkedText(text, ()))
    back = insert_markers(marked, marked.text, [])
    assert sorted(back.replace(" ", "")) == sorted(text.replace(" ", ""))
