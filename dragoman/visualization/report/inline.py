"""Figures as inline SVG for HTML pages with a strict content-security policy and a light and a dark mode."""

import re
from typing import TYPE_CHECKING

from dragoman.visualization.figures.figure import svg_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Placeholder colours, which become the page's own: `color`, and the custom properties --soft and --line.
INK, SOFT, LINE = "#010203", "#010204", "#010205"
_PAGE_COLORS = {INK: "currentColor", SOFT: "var(--soft)", LINE: "var(--line)"}
_STYLE = re.compile(r' style="([^"]*)"')
_CLUTTER = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')
PAGE_STYLE = {
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.titlecolor": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.edgecolor": SOFT,
    "grid.color": LINE,
    "legend.labelcolor": SOFT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}
"""For `drawing_style`: a figure in the page's colours with a transparent background."""


def inline_svg(figure: "Figure", name: str, description: str) -> str:
    """The figure as an ``<svg>`` element for a page.

    Its ids start with `name`, which must be unique in the page. The element has no style elements or attributes, which
    the page's policy would block. `description` is the text for screen readers and must not contain markup.
    """
    text = _STYLE.sub(_as_attributes, _CLUTTER.sub("", svg_of(figure)))
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for color, replacement in _PAGE_COLORS.items():
        text = text.replace(color, replacement)
    head = rf'<svg class="chart" role="img" aria-label="{description}" viewBox="\1" xmlns="http://www.w3.org/2000/svg" '
    return _SIZE.sub(head + 'xmlns:xlink="http://www.w3.org/1999/xlink">', text, count=1).strip()


def _as_attributes(match: re.Match[str]) -> str:
    """Turn `style="fill: none; stroke: #000"` into `fill="none" stroke="#000"`. SVG has an attribute per property."""
    pairs = (part.partition(":") for part in match[1].split(";") if part.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in pairs)
