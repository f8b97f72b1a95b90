import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.documents.markers import MarkedText, Marker
from dragoman.text.documents.placement import AlignedPart, _touching_markers, aligned_run, insert_markers

SOURCE = "the red car stops"


def spans_of(text, start=0):
    return [(match.start() + start, match.end() + start) for match in re.finditer(r"\S+", text)]


def aligned(source, target, links):
    weights = np.zeros((len(target.split()), len(source.split())))
    for src, tgt in links:
        weights[tgt, src] = 1.0
    return AlignedPart(spans_of(source), spans_of(target), weights)


def test_tags_go_with_their_words():
    markers = (Marker(4, 7, "<i>", "</i>"), Marker(8, 11, "<b>", "</b>"))
    part = aligned(SOURCE, "la voiture rouge s'arrête", [(0, 0), (2, 1), (1, 2), (3, 3)])
    written = insert_markers(MarkedText(SOURCE, markers), "la voiture rouge s'arrête", [part])
    assert written == "la <b>voiture</b> <i>rouge</i> s'arrête"


def test_nested_tags_and_points():
    markers = (Marker(0, 11, "<a>", "</a>"), Marker(4, 7, "<b>", "</b>", 0), Marker(11, 11, "{x}", spaced=(True, True)))
    part = aligned(SOURCE, "das rote Auto hält", [(0, 0), (1, 1), (2, 2), (3, 3)])
    written = insert_markers(MarkedText(SOURCE, markers), "das rote Auto hält", [part], lambda text: text.upper())
    assert written == "<a>DAS <b>ROTE</b> AUTO</a> {x} HÄLT"


def placed(marked: str, target: str, links: dict[str, str]) -> str:
    """The target with the `[...]` and `(...)` of the source. `links` has the target words of source words."""
    markers: list[Marker] = []
    opened: list[int] = []
    text = ""
    for char in marked:
        if char in "[(":
            opened.append(len(markers))
            markers.append(Marker(len(text), 0, char, "", opened[-2] if len(opened) > 1 else -1))
        elif char in "])":
            own = opened.pop()
            markers[own] = markers[own]._replace(stop=len(text), tail=char)
        else:
            text += char
    words = target.split()
    pairs = [
        (number, words.index(other))
        for number, word in enumerate(text.split())
        for other in links.get(word, "").split()
    ]
    return insert_markers(MarkedText(text, tuple(markers)), target, [aligned(text, target, pairs)])


@pytest.mark.parametrize(
    ("marked", "target", "links", "expected"),
    [
        ("we sit [in the] garden", "wir sitzen im Garten", {"in": "im", "the": "im"}, "wir sitzen [im] Garten"),
        ("we sit [in] the garden", "wir sitzen im Garten", {"in": "im", "the": "im"}, "wir sitzen [im] Garten"),
        ("[train station] burns", "Bahnhof brennt", {"train": "Bahnhof", "station": "Bahnhof"}, "[Bahnhof] brennt"),
        ("train [station] burns", "Bahnhof brennt", {"train": "Bahnhof", "station": "Bahnhof"}, "[Bahnhof] brennt"),
        ("a s[tati]on burns", "ein Bahnhof brennt", {"station": "Bahnhof"}, "ein [Bahnhof] brennt"),
        ("he [gave up] late", "er gab es sehr spät auf", {"gave": "gab", "up": "auf"}, "er [gab] es sehr spät auf"),
        ("[he (stands) up] now", "jetzt steht er", {"he": "er", "stands": "steht"}, "jetzt [(steht) er]"),
        ("[the] (red) car", "Auto rote das", {"the": "das", "red": "rote"}, "Auto (rote) [das]"),
    ],
)
def test_words_that_become_one_or_several_keep_one_marker(marked, target, links, expected):
    assert placed(marked, target, links) == expected


def test_a_span_over_two_parts_is_one():
    source, target = "One two. Three four.", "Eins zwei. Drei vier."
    parts = [
        AlignedPart(spans_of(source[:8]), spans_of(target[:10]), np.eye(2)),
        AlignedPart(spans_of(source[9:], 9), spans_of(target[11:], 11), np.eye(2)),
    ]
    marked = MarkedText(source, (Marker(4, 14, "<b>", "</b>"),))
    assert insert_markers(marked, target, parts) == "Eins <b>zwei. Drei</b> vier."


def test_the_place_of_a_term_is_no_longer_than_the_term():
    part = AlignedPart(spans_of("a bike"), spans_of("auf einem Rad"), np.array([[0.3, 0.7], [0.4, 0.6], [0.1, 0.9]]))
    assert aligned_run("a bike", "auf einem Rad", part, (2, 6), 0) == (2, 3)
    assert aligned_run("a bike", "auf einem Rad", part, (2, 6), 3) == (3, 3)


@st.composite
def trees(draw):
    """Nested spans and points in a text of words."""
    words = draw(st.integers(1, 8))
    text = " ".join("w" * (1 + n % 3) + str(n) for n in range(words))
    markers: list[Marker] = []

    def grow(start, stop, parent, depth):
        place = start
        while draw(st.integers(0, 3)) and len(markers) < 12:
            begin = draw(st.integers(place, stop))
            end = draw(st.integers(begin, stop))
            number = len(markers)
            markers.append(Marker(begin, end, f"<{number}>", "" if begin == end and depth else f"</{number}>", parent))
            if depth < 3 and markers[-1].tail:
                grow(begin, end, number, depth + 1)
            place = end

    grow(0, len(text), -1, 0)
    return MarkedText(text, tuple(markers))


@settings(max_examples=300, deadline=None)
@given(trees(), st.integers(-1, 30), st.integers(0, 30))
def test_marks_that_touch_a_part_are_found_without_a_look_at_all(marked, first, length):
    last = first + length
    touching = [
        number
        for number, marker in enumerate(marked.markers)
        if (
            first <= marker.start < last if marker.start == marker.stop else marker.start < last and marker.stop > first
        )
    ]
    assert _touching_markers(marked.markers, [marker.start for marker in marked.markers], (first, last)) == touching


@settings(max_examples=300, deadline=None)
@given(trees(), st.integers(1, 8), st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_the_tree_is_kept_whatever_the_attention(marked, num_words, seed, cut):
    translation = " ".join(f"t{n}" for n in range(num_words))
    weights = np.random.default_rng(seed).random((num_words, len(marked.text.split())))
    src, tgt = spans_of(marked.text), spans_of(translation)
    parts = [AlignedPart(src, tgt, weights)]
    if cut < min(len(src), len(tgt)):
        parts = [
            AlignedPart(src[:cut], tgt[:cut], weights[:cut, :cut]),
            AlignedPart(src[cut:], tgt[cut:], weights[cut:, cut:]),
        ]
    written = insert_markers(marked, translation, parts)
    assert re.sub(r"</?\d+>", "", written).split() == translation.split()
    inside, parents = [-1], {}
    for end, number in re.findall(r"<(/?)(\d+)>", written):
        if end:
            assert inside.pop() == int(number)
        else:
            assert int(number) not in parents
            parents[int(number)] = inside[-1]
            if marked.markers[int(number)].tail:
                inside.append(int(number))
    assert parents == {number: marker.parent for number, marker in enumerate(marked.markers)}


def test_of_two_marked_words_with_one_translation_the_surer_one_has_it() -> None:
    source = MarkedText("the guitar here", (Marker(0, 3, "<i>", "</i>"), Marker(4, 10, "<b>", "</b>")))
    weights = np.array([[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]])
    part = AlignedPart([(0, 3), (4, 10), (11, 15)], [(0, 7), (8, 12)], weights)
    assert "<b>Gitarre</b>" in insert_markers(source, "Gitarre hier", [part])
