"""Figure of the lengths of a corpus: sentences of both sides, and their ratio."""

import os
from array import array
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dragoman.text.corpus.corpus import Corpus
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.visualization.arguments import check_choice, path_of
from dragoman.visualization.figures.figure import COLORS, count_steps, draw_histogram, new_figure

_MOST_BARS = 40


def plot_lengths(
    src: str | os.PathLike[str],
    tgt: str | os.PathLike[str] | None = None,
    unit: Literal["words", "characters"] = "words",
) -> Figure:
    """Plot how long the sentences of a corpus are, and how much longer or shorter the targets are than the sources.

    The last bar of a histogram of lengths counts all longer sentences. Pairs with an empty side have no ratio.

    Parameters
    ----------
    src, tgt : str or Path
        Two aligned files. Without `tgt`, `src` is one file with both sides, as for `dragoman.train`.
    unit : {"words", "characters"}
        What to count. Words stand between spaces, so count characters of Chinese or Japanese.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a name is no name of a file, or if the format is unknown.
    DataError
        If a file cannot be read, is empty or misaligned.

    Examples
    --------
    >>> plot_lengths("corpus.en", "corpus.de")
    """
    path = path_of("src", src)
    check_choice("unit", unit, ("words", "characters"))
    corpus = open_corpus(path) if tgt is None else open_aligned(path, path_of("tgt", tgt))
    lengths = _count(corpus, unit)
    names = corpus.src_lang or "source", corpus.tgt_lang or "target"
    with new_figure(9.6, 2.8, columns=3) as (figure, axes):
        for place, counts, name, color in zip(axes, lengths, names, COLORS, strict=False):
            _draw_lengths(place, counts, f"{name}: {unit} per sentence", color)
        axes[0].set_ylabel("pairs")
        _draw_ratios(axes[2], *lengths, f"{names[1]} / {names[0]}")
    return figure


def _count(corpus: Corpus, unit: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths of both sides."""
    sides = array("q"), array("q")
    for pair in corpus.pairs():
        for side, text in zip(sides, (pair.src, pair.tgt), strict=True):
            side.append(len(text.split()) if unit == "words" else len(text.strip()))
    return np.array(sides[0]), np.array(sides[1])


def _draw_lengths(axes: Axes, lengths: NDArray[np.int64], title: str, color: str) -> None:
    most = max(1, int(np.quantile(lengths, 0.995)))
    width = -(-most // _MOST_BARS)
    edges = np.arange(0, most + 2 * width, width) - 0.5
    counts, _ = np.histogram(np.minimum(lengths, most), edges)
    draw_histogram(axes, edges, counts, float(lengths.mean()), color)
    axes.set_title(title, parse_math=False, fontsize=9)
    axes.set_xlabel(f"mean {lengths.mean():.1f}, longest {lengths.max():,}", fontsize=8)
    count_steps(axes)


def _draw_ratios(axes: Axes, src: NDArray[np.int64], tgt: NDArray[np.int64], name: str) -> None:
    both = (src > 0) & (tgt > 0)
    axes.set_title(f"{name}: length ratio", parse_math=False, fontsize=9)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if not both.any():
        return
    ratios = tgt[both] / src[both]
    edges = 2 ** np.linspace(-3, 3, _MOST_BARS + 1)
    counts, _ = np.histogram(np.clip(ratios, edges[0], edges[-1]), edges)
    draw_histogram(axes, edges, counts, float(np.median(ratios)), COLORS[2])
    axes.set_xscale("log", base=2)
    axes.set_xticks([1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8], ["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    far = float(((ratios > 4) | (ratios < 1 / 4)).mean())
    axes.set_xlabel(f"{len(src):,} pairs, median {np.median(ratios):.2f}, beyond 4 to 1: {far:.1%}", fontsize=8)
