"""The picture of a terminal session: well-formed, complete, and styled by the kind of line."""

from xml.etree import ElementTree

from tools.terminal_svg import commands_of, draw

SESSION = """\
$ dragoman translate run \\
    < test.en
Ein <b>Hund</b> & eine Katze.
...

$ echo "Hi" | dragoman translate run
Hallo
"""
SVG = "{http://www.w3.org/2000/svg}"


def test_every_line_is_drawn_with_its_style() -> None:
    root = ElementTree.fromstring(draw(SESSION))
    spans = [(span.get("class"), span.text) for span in root.iter(f"{SVG}text")]
    assert spans == [
        ("prompt", "$ "),
        ("command", "dragoman translate run \\"),
        ("command", "    < test.en"),
        ("output", "Ein <b>Hund</b> & eine Katze."),
        ("omitted", "..."),
        ("prompt", "$ "),
        ("command", 'echo "Hi" | dragoman translate run'),
        ("output", "Hallo"),
    ]


def test_every_line_lies_within_the_picture() -> None:
    root = ElementTree.fromstring(draw("x" * 100 + "\n" * 30 + "end"))
    width, height = (float(size) for size in root.get("viewBox", "").split()[2:])
    for span in root.iter(f"{SVG}text"):
        assert float(span.get("x", "")) + float(span.get("textLength", "")) < width
        assert float(span.get("y", "")) < height


def test_the_title_is_the_commands() -> None:
    assert commands_of(SESSION) == 'dragoman translate run < test.en; echo "Hi" | dragoman translate run'


def test_the_picture_has_colors_for_dark_pages_and_loads_nothing() -> None:
    picture = draw(SESSION)
    assert "prefers-color-scheme: dark" in picture
    assert "url(" not in picture
    assert "href" not in picture
