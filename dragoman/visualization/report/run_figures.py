"""Figures of a run for its report: training curves and sentence lengths, as files and as inline SVG.

Inline SVG works in pages with a strict content-security policy and a light and a dark mode.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from dragoman.data.store import Counts
from dragoman.errors import DataError
from dragoman.visualization.arguments import path_of
from dragoman.visualization.figures.figure import COLORS, count_steps, draw_histogram, new_figure, svg_of
from dragoman.visualization.report.run_facts import Points, TrainingLog, read_log

# Placeholder colours, which become the page's own: `color`, and the custom properties --soft and --line.
INK, SOFT, LINE = "#010203", "#010204", "#010205"
_PAGE_COLORS = {INK: "currentColor", SOFT: "var(--soft)", LINE: "var(--line)"}
_STYLE = re.compile(r' style="([^"]*)"')
_CLUTTER = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')
PAGE_STYLE = {
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.edgecolor": SOFT,
    "grid.color": LINE,
    "legend.labelcolor": SOFT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
}
"""For `drawing_style`: a figure in the page's colours with a transparent background."""


def inline_svg(figure: Figure, name: str, description: str) -> str:
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


_SCORES = "BLEU and chrF on validation"
_PANELS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("Loss (nats per token)", (("train", "loss", "training (label-smoothed)"), ("validation", "loss", "validation"))),
    ("Perplexity", (("train", "perplexity", "training"), ("validation", "perplexity", "validation"))),
    (_SCORES, (("validation", "bleu", "BLEU"), ("validation", "chrf", "chrF"))),
    ("Learning rate", (("train", "learning_rate", ""),)),
    ("Target tokens per second", (("train", "tokens_per_second", ""),)),
)

# Width in inches of a figure with two columns, and with one for phones, where smaller letters would be unreadable.
_WIDTH, _NARROW = 9.2, 4.4


def plot_run(run: str | os.PathLike[str]) -> Figure:
    """Plot loss, perplexity, scores, learning rate and speed of a run over the steps, as its report shows them.

    Parameters
    ----------
    run : Run, str or Path
        The run, or its folder.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `run` is no folder's name.
    DataError
        If the folder does not exist, or if nothing has been logged yet.

    Examples
    --------
    >>> plot_run("run")
    """
    folder = path_of("run", run, "a run or the name of its folder")
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder. Name the folder of a run, which `dragoman.train` has written.")
    figure = draw_run(read_log(folder / "log.jsonl"), style={})
    if figure is None:
        raise DataError(f"{folder} has logged nothing yet. Train some steps first.")
    return figure


def draw_run(log: TrainingLog, columns: int = 2, style: Mapping[str, Any] = PAGE_STYLE) -> Figure | None:
    """Plot the curves of a log, one panel per quantity. None if the log is empty. One column fits a phone."""
    drawn = []
    for title, lines in _PANELS:
        if curves := [(name, points) for kind, key, name in lines if (points := getattr(log, kind).get(key))]:
            drawn.append((title, curves))
    if not drawn:
        return None
    columns = min(columns, len(drawn))
    rows = -(-len(drawn) // columns)
    with new_figure(_WIDTH if columns == 2 else _NARROW, 2.3 * rows, rows, columns, style) as (figure, axes):
        for place, (title, panel) in zip(axes, drawn, strict=False):
            if title == _SCORES:
                _draw_forecast(place, log.validation)
            _draw(place, title, panel)
        for place in axes[len(drawn) :]:
            place.set_axis_off()
        for place in axes[max(0, len(drawn) - columns) : len(drawn)]:
            place.set_xlabel("step")
    return figure


def _draw(axes: Axes, title: str, curves: list[tuple[str, Points]]) -> None:
    for index, (name, points) in enumerate(curves):
        steps, values = zip(*points, strict=True)
        marker = "o" if len(points) < 12 else ""
        color = COLORS[index] if name != "validation" else COLORS[1]
        axes.plot(steps, values, marker=marker, markersize=3, color=color, label=name)
    axes.set_title(title)
    axes.grid(visible=True)
    axes.margins(x=0.02)
    count_steps(axes)
    if title == "Perplexity":
        _mark_powers(axes, [value for _, points in curves for _, value in points])
    elif title == _SCORES:
        axes.set_ylim(0, max(5.0, axes.dataLim.y1, 1.08 * max(value for _, points in curves for _, value in points)))
    elif title.startswith("Learning"):
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
    else:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    if any(name for name, _ in curves):
        axes.legend(fontsize=8, loc="best")


def _draw_forecast(axes: Axes, validation: Mapping[str, Points]) -> None:
    """Plot the interval of BLEU at the end of the run, as each validation forecast it."""
    bounds = [validation.get(f"bleu_at_end_{side}", ()) for side in ("low", "high")]
    if all(bounds):
        steps = [step for step, _ in bounds[0]]
        low, high = ([value for _, value in points] for points in bounds)
        axes.fill_between(steps, low, high, color=COLORS[0], alpha=0.15, linewidth=0, label="BLEU at the end, forecast")


def _mark_powers(axes: Axes, values: list[float]) -> None:
    """Use a logarithmic scale with ticks at powers of ten, and also at 2 and 5 if the range is small."""
    between = (1.0,) if max(values) > 100 * min(values) else (1.0, 2.0, 5.0)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=between))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: "")


def draw_lengths(sides: Sequence[Counts], names: Sequence[str], most: int, columns: int = 2) -> Figure | None:
    """Plot histograms of the training pairs by tokens, up to `most`, for source and target. None without data.

    A histogram has at most 32 bars.
    """
    if not sides:
        return None
    rows = len(sides) // columns
    with new_figure(_WIDTH if columns == 2 else _NARROW, 2.1 * rows, rows, columns, PAGE_STYLE) as (figure, axes):
        for place, lengths, name, color in zip(axes, sides, names, COLORS, strict=False):
            longest = max(1, min(int(lengths.max()), most))
            width = max(1, math.ceil(longest / 32))
            edges = np.arange(0.5, longest + width + 0.5, width)
            counts, _ = np.histogram(lengths, edges)
            draw_histogram(place, edges, counts, lengths.mean(), color, INK)
            place.set_title(f"{name}: tokens per sentence (mean {lengths.mean():.1f})", parse_math=False)
            place.margins(x=0.02)
        for place in axes[::columns]:
            place.set_ylabel("training pairs")
    return figure
