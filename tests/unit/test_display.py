"""Tables of records in notebooks."""

from dragoman.display import html_table, shape_text, text_table


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
