"""Tables of records in notebooks."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dragoman.display import ShownRecord, html_table, one_screen, shape_text, text_table


def test_numbers_are_aligned_right_and_texts_are_escaped() -> None:
    page = html_table(("name", "shape", "count", "note"), [("<a>", "2 x 8", "1,000", "1 of 2"), ("b", "", "-0.5", "")])
    assert "&lt;a&gt;" in page
    assert [part.split('"')[0] for part in page.split("text-align: ")[1:5]] == ["left", "right", "right", "left"]
    assert '<td style="text-align: right">1,000</td>' in page
    assert html_table(("name",), []).count("<th ") == 1


def test_shapes() -> None:
    assert shape_text((2, 8, 3)) == "2 x 8 x 3"


def test_the_columns_of_a_text_table_are_aligned() -> None:
    lines = text_table(("rule", "pairs", "share"), [("read", "1,000", "100.0%"), ("longer rule", "2", "")])
    assert list(lines) == ["rule         pairs   share", "read         1,000  100.0%", "longer rule      2"]


@dataclass(frozen=True, slots=True, repr=False)
class Lesson(ShownRecord):
    """A record with every kind of value."""

    name: str
    count: int
    share: float
    rows: tuple[tuple[str, int], ...]
    note: str = "none"
    tokens: tuple[str, ...] = ()


def test_a_record_shows_its_fields_in_order_without_defaults() -> None:
    assert repr(Lesson("a lesson", 1000, 0.123456, (("read", 1000), ("kept", 2)), tokens=("a", "b"))).splitlines() == [
        "Lesson",
        "  name    a lesson",
        "  count   1,000",
        "  share   0.1235",
        "  rows    read 1,000 | kept 2",
        "  tokens  a b",
    ]


@given(texts=st.lists(st.text(max_size=40) | st.just("a b " * 900) | st.just("ä" * 9000), max_size=40))
def test_any_texts_fit_one_screen_and_can_be_printed(texts: list[str]) -> None:
    rows = one_screen((f"row {number}", text) for number, text in enumerate(texts))
    for shown in (rows, repr(Lesson("".join(texts), 1, 2.0, tuple((text, 1) for text in texts)))):
        lines = shown.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines), default=0) <= 100
        assert shown.encode().decode() == shown


@given(st.text())
def test_the_table_of_a_record_has_its_text_and_no_markup_of_it(text: str) -> None:
    page = Lesson(f"<b>{text}</b>", 1, 0.5, ())._repr_html_()
    assert page.encode().decode() == page
    assert page.count("<") == page.count(">") == Lesson("", 1, 0.5, ())._repr_html_().count("<")
