"""Shared code of all figures: style, colours, labels, new figures, and writing figures to files.

Figures are created without pyplot. A finished figure is then given to pyplot where a user can expect it: in a notebook,
or if the program has imported pyplot and its backend has windows. The server and the report never do that, and no
program imports pyplot or a GUI because of a figure.

Labels may have words of any script. A character that is missing in the figure's font is looked up in all installed
fonts. If no font has it, the word is spelled in Latin letters from the Unicode names of its characters (`は` is
HIRAGANA LETTER HA, so `[ha]`), or as code points if the names are no help (`[U+65E5]`). A note below the figure then
explains the brackets. No label ever shows an empty box.
"""

import io
import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib._pylab_helpers import Gcf
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from dragoman.display import ipython_shell, is_notebook
from dragoman.files import write_file
from dragoman.text.tokenization.pipelines import SPACE_SYMBOL
from dragoman.visualization.arguments import check_figure_path, path_of, wrong_type

_SHARPNESS = 2
"""Pixels of a PNG per pixel of a screen without high resolution."""
# Distinguishable with every kind of colour vision (Okabe and Ito 2008), without the bright yellow.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6a51a3", "#7f7f7f")
DIVERGING = "PuOr"
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.axisbelow": True,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "grid.color": "#e3e3e3",
    "legend.frameon": False,
    "image.cmap": "Blues",
    "lines.linewidth": 1.6,
    "figure.dpi": 110,
    "svg.hashsalt": "dragoman",
}


@contextmanager
def drawing_style(changes: Mapping[str, Any] = {}) -> Iterator[None]:
    """Apply the style of the figures, with `changes`, inside the block.

    The caller's matplotlib settings have no effect inside the block and are restored after it.
    """
    # Naming the backend, even the one in use, would import pyplot.
    style: Any = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    with matplotlib.rc_context(style | _STYLE | dict(changes)):
        yield


class NotebookFigure(Figure):
    """matplotlib's figure, which a notebook shows once, in high resolution, and which pyplot can show."""

    # PNG and not SVG, which notebooks that are opened without being trusted do not show.
    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        if self.canvas.manager in Gcf.get_all_fig_managers():
            if matplotlib.is_interactive() and "inline" not in matplotlib.get_backend():
                return None  # a window or a widget shows the figure already
            Gcf.destroy_fig(self)  # else it would be shown again at the end of the cell
        data = png_of(self)
        width, height = (round(int.from_bytes(data[at : at + 4]) / _SHARPNESS) for at in (16, 20))
        return data, {"width": width, "height": height}

    def show(self, warn: bool = True) -> None:
        """Show the figure below the cell of a notebook, or in a window.

        `matplotlib.pyplot.show()` keeps the windows of a script open. Without a GUI, warns unless `warn` is False.
        """
        from matplotlib import pyplot

        hand_to_pyplot(self)
        if is_notebook():
            from IPython.display import display

            display(self)  # type: ignore[no-untyped-call]
        elif self.canvas.manager in Gcf.get_all_fig_managers():
            super().show(warn)
        elif warn:
            advice = 'Write the figure to a file with `save_figure(figure, "figure.png")`.'
            warnings.warn(f"matplotlib has no windows here (backend {pyplot.get_backend()}). {advice}", stacklevel=2)


_WITHOUT_WINDOWS = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
# Figures that wait for `pyplot.show()`. matplotlib warns above 20, and the program has figures of its own.
_MOST_WAITING = 15


def hand_to_pyplot(figure: Figure) -> None:
    """Let pyplot show a figure, if this is a notebook or a program that has imported pyplot and can show figures.

    pyplot keeps a figure until it is shown or closed. A script may make figures for ever, so only the latest
    `_MOST_WAITING` wait.
    """
    if "matplotlib.pyplot" not in sys.modules and not is_notebook():
        return
    from matplotlib import pyplot

    if pyplot.get_backend().lower() in _WITHOUT_WINDOWS or figure.canvas.manager in Gcf.get_all_fig_managers():
        return
    # A backend may be missing, which pyplot reports when it shows figures.
    with warnings.catch_warnings(), suppress(ImportError):
        warnings.filterwarnings("ignore", "More than", RuntimeWarning)  # figures of a cell, which are shown and closed
        pyplot.figure(FigureClass=lambda *_, **__: figure)  # type: ignore[arg-type]
    if not pyplot.isinteractive():
        own = [each for each in Gcf.get_all_fig_managers() if isinstance(each.canvas.figure, NotebookFigure)]
        for manager in own[:-_MOST_WAITING]:
            Gcf.destroy(manager)


@contextmanager
def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, style: Mapping[str, Any] = {}
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of this size in inches and its axes row by row, with a layout in which no labels overlap.

    Draw inside the block, which has the style of the figures. Afterwards pyplot can show the figure. A figure with
    changes of the `style` is part of a page, and pyplot does not get it.
    """
    if shell := ipython_shell():  # else `%matplotlib inline` would draw the figure with half the resolution
        shell.display_formatter.formatters["image/png"].for_type(NotebookFigure, NotebookFigure._repr_png_)
    with drawing_style(style):
        figure = NotebookFigure(figsize=(width, height), layout="constrained")
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)
    if not style:
        hand_to_pyplot(figure)


def write_numbers(axes: Axes, values: NDArray[Any], digits: int) -> None:
    """Write the numbers of an image with values from 0 to 1 into its cells."""
    for (row, column), value in np.ndenumerate(values):
        color = "white" if value > 0.6 else "#b0b0b0" if value == 0 else "#222222"
        axes.text(column, row, f"{round(value, digits):g}", ha="center", va="center", fontsize=7, color=color)


def count_steps(axes: Axes) -> None:
    """Label the horizontal axis with integers, with commas between thousands."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


def draw_histogram(
    axes: Axes, edges: ArrayLike, counts: ArrayLike, middle: float, color: str, ink: str = "#222222"
) -> None:
    """Draw a bar for each count between two edges, and a dotted line of colour `ink` at the mean or median."""
    places = np.asarray(edges)
    axes.bar(places[:-1], counts, np.diff(places), align="edge", color=color, alpha=0.85, linewidth=0)
    axes.axvline(middle, color=ink, linewidth=1, linestyle=":")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a .png, .svg or .pdf file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or Path
        The file to write. Its extension selects the format. An existing file is replaced atomically.

    Raises
    ------
    ConfigError
        If `figure` is no figure, the extension is another one, the path is a folder, or its parent folder does not
        exist.
    ResourceError
        If the disk is full.
    """
    if not isinstance(figure, Figure):
        raise wrong_type("figure", "a matplotlib figure", figure, "A `plot_` function returns one.")
    path = path_of("path", path)
    check_figure_path(path)
    write_file(path, _encode_figure(figure, path.suffix[1:].lower()))


def svg_of(figure: Figure) -> str:
    """The figure as an SVG document. Equal figures give equal documents."""
    return _encode_figure(figure, "svg").decode()


def png_of(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG file with 256 colours, which has a third of the bytes with all colours."""
    image = Image.open(io.BytesIO(_encode_figure(figure, "png"))).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    return buffer.getvalue()


def _encode_figure(figure: Figure, ending: str) -> bytes:
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[ending]
    buffer = io.BytesIO()
    with drawing_style():
        dpi = _SHARPNESS * figure.dpi
        figure.savefig(buffer, format=ending, dpi=dpi, metadata=dates, bbox_inches="tight", pad_inches=0.08)
    return buffer.getvalue()


OWN_FONT = "DejaVu Sans"
LONGEST_LABEL = 24
_NO_FONT = "Last Resort"
# Categories of characters that are invisible, or that change the direction or position of their neighbours.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_TELLING_NAME = re.compile(r"(?:LETTER|SIGN|SYLLABLE|DIGIT|MARK) (?:SMALL |FINAL |INITIAL |VOWEL SIGN )*(.+)")


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts ready to draw. The first of `fonts` that has a character draws it. `note` is the text below the figure."""

    texts: tuple[str, ...]
    fonts: tuple[str, ...]
    note: str


def readable_labels(words: Iterable[str]) -> Labels:
    """Convert words to labels that this machine can draw, each at most 24 characters long.

    Invisible and direction-changing characters become code points. Runs of combining marks are cut at three.
    """
    shown = [_clean_word(word) for word in words]
    needed = {character for word in shown for character in word}
    fonts, missing = [OWN_FONT], needed - _characters_of(findfont(FontProperties(family=OWN_FONT)))
    for known in (_registered_fonts, _all_fonts) if missing else ():
        for name, path in known():
            if found := missing & _characters_of(path):
                fonts.append(name)
                missing -= found
    texts = tuple(_spell_out(word) if missing & set(word) else word for word in shown)
    return Labels(texts, tuple(fonts), _note(missing))


def label_axis(axis: Axis, labels: Labels, fontsize: float, rotation: float = 0.0, every: int = 1) -> None:
    """Put every label, or one in `every`, on an axis. `$` does not start a formula."""
    axis.set_ticks(range(0, len(labels.texts), every), labels.texts[::every], fontsize=fontsize, rotation=rotation)
    for text in axis.get_ticklabels():
        text.set_parse_math(False)
        text.set_fontfamily(list(labels.fonts))


def _clean_word(word: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in word[: 40 * LONGEST_LABEL]:
        category = unicodedata.category(character)
        marks = marks + 1 if category == "Mn" else 0
        if marks > 3:
            continue
        kept.append(f"<U+{ord(character):04X}>" if category in _UNSEEN else character)
    text = "".join(kept)
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def _spell_out(word: str) -> str:
    """Spell a word that no font can draw in Latin letters and code points, in brackets after its space marker."""
    mark = SPACE_SYMBOL if word.startswith(SPACE_SYMBOL) else ""
    names = [_name_of(character) for character in word.removeprefix(mark) if character != "…"]
    spelled = mark + " ".join(name for name in names if name)
    return f"[{spelled if len(spelled) <= 2 * LONGEST_LABEL else spelled[: 2 * LONGEST_LABEL - 1] + '…'}]"


def _name_of(character: str) -> str:
    if character.isascii():
        return character
    found = _TELLING_NAME.search(unicodedata.name(character, ""))
    if found is None or character in "\u200c\u200d":
        return f"U+{ord(character):04X}"
    return found[1].lower().replace(" ", "-")


def _note(missing: Iterable[str]) -> str:
    scripts = sorted({unicodedata.name(character, "UNKNOWN").split()[0] for character in missing})
    scripts = [script if script == "CJK" else script.title() for script in scripts]
    if not scripts:
        return ""
    listed = ", ".join(scripts[:4]) + (" …" if len(scripts) > 4 else "")
    return f"No installed font has {listed}. Words in [brackets] are spelled with Unicode character names."


def _registered_fonts() -> Sequence[tuple[str, str]]:
    """Family and file of every font that matplotlib knows, sorted by name: the upright, normal font of each family."""

    def plainness(entry: FontEntry) -> tuple[bool, bool, str]:
        return entry.style != "normal", str(entry.weight) not in ("400", "normal"), entry.fname

    plainest_last = sorted(fontManager.ttflist, key=plainness, reverse=True)
    return sorted({entry.name: entry.fname for entry in plainest_last if _NO_FONT not in entry.name}.items())


@lru_cache(maxsize=1)
def _all_fonts() -> Sequence[tuple[str, str]]:
    """All fonts, including fonts installed after matplotlib cached its list."""
    for path in set(findSystemFonts()) - {entry.fname for entry in fontManager.ttflist}:
        with suppress(RuntimeError, OSError, ValueError):  # not every file is a readable font
            fontManager.addfont(path)
    return _registered_fonts()


@lru_cache(maxsize=256)
def _characters_of(path: str) -> frozenset[str]:
    """Every character of a font file. Empty if the file cannot be read."""
    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (RuntimeError, OSError, ValueError):
        return frozenset()
