"""Labels of any script: drawn with a font that has them, or spelled in Latin letters, never as boxes."""

import warnings
from pathlib import Path

import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from dragoman.visualization import plot_masks
from dragoman.visualization.figures import attention_figures, figure
from dragoman.visualization.figures.figure import png_of, readable_labels

TELUGU, JAPANESE, CYRILLIC, LATIN = "తెలుగు", "こんにちは", "Привет", "Größe"


@pytest.fixture
def only_our_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with matplotlib's own fonts only."""
    own = [entry for entry in figure._registered_fonts() if "matplotlib" in entry[1]]
    monkeypatch.setattr(figure, "_registered_fonts", lambda: own)
    monkeypatch.setattr(figure, "_all_fonts", lambda: own)


def made_font(path: Path, family: str, characters: str) -> Path:
    """Create a font with these characters only, each as a filled square."""
    names = {ord(character): f"glyph{index}" for index, character in enumerate(characters)}
    pen = TTGlyphPen(None)
    for x, y in ((0, 0), (0, 500), (500, 500), (500, 0)):
        (pen.lineTo if (x, y) != (0, 0) else pen.moveTo)((x, y))
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    order = [".notdef", *names.values()]
    builder.setupGlyphOrder(order)
    builder.setupCharacterMap(names)
    builder.setupGlyf(dict.fromkeys(order, square))
    builder.setupHorizontalMetrics(dict.fromkeys(order, (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return path


def drawn_without_complaint(words: list[str]) -> None:
    """Draw the words on both axes. matplotlib warns about every character that would become a box."""
    weights = torch.full((len(words), len(words)), 1 / len(words))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        png_of(attention_figures.plot_untrained_and_trained(weights, weights, words, words))


def test_latin_and_cyrillic_are_drawn_unchanged(only_our_fonts: None) -> None:
    found = readable_labels([LATIN, CYRILLIC, ""])
    assert found.texts == (LATIN, CYRILLIC, "")
    assert found.note == ""


def test_words_without_a_font_are_spelled_with_a_note(only_our_fonts: None) -> None:
    found = readable_labels([JAPANESE, TELUGU, "日本", "fine"])
    assert found.texts == ("[ko n ni ti ha]", "[ta e la u ga u]", "[U+65E5 U+672C]", "fine")
    assert found.note.startswith("No installed font has CJK, Hiragana, Telugu.")
    drawn_without_complaint([JAPANESE, TELUGU, "日本", LATIN, CYRILLIC])
    weights = torch.eye(2)
    figure = attention_figures.plot_untrained_and_trained(weights, weights, [TELUGU, "a"], ["b", "c"])
    assert "No installed font has Telugu" in figure.get_supxlabel()


def test_installed_fonts_are_used(only_our_fonts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.font_manager import fontManager

    path = made_font(tmp_path / "squares.ttf", "Telugu Squares", TELUGU)
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    fontManager.addfont(path)
    own = figure._registered_fonts()
    monkeypatch.setattr(figure, "_registered_fonts", lambda: [*own, ("Telugu Squares", str(path))])
    found = readable_labels([TELUGU, JAPANESE])
    assert found.texts == (TELUGU, "[ko n ni ti ha]")
    assert found.fonts == (figure.OWN_FONT, "Telugu Squares")
    drawn_without_complaint([TELUGU])


def test_hostile_labels_are_drawn_safely(only_our_fonts: None) -> None:
    words = [
        "</script>",
        "a\u202eb\u200f",
        "$\\frac{$",
        "z" + "\u0301" * 5000,
        "😀",
        "\ud800",
        "x" * 10_000,
        "\n",
        "\0",
    ]
    found = readable_labels(words)
    assert found.texts[0] == "</script>"
    assert found.texts[1] == "a<U+202E>b<U+200F>"
    assert found.texts[3] == "z" + "\u0301" * 3
    assert found.texts[6] == "x" * 23 + "…"
    assert found.texts[7:] == ("<U+000A>", "<U+0000>")
    assert all(len(text) <= 2 * figure.LONGEST_LABEL + 2 for text in found.texts)
    drawn_without_complaint(words)
    png_of(plot_masks(words, words, 3, 4))
