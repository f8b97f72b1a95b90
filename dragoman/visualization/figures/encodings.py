"""Figures of the sinusoidal position encodings (Vaswani et al. 2017, section 3.5)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.model.embedding import sinusoidal_positions
from dragoman.visualization.arguments import check_count, check_even, check_sequence
from dragoman.visualization.figures.figure import COLORS, DIVERGING, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_encodings(length: int = 100, d_model: int = 128) -> "Figure":
    """Plot the encodings as an image: one row per position, one column per dimension, values from -1 to 1.

    The frequency falls from left to right: the first columns change with every row, the last ones hardly at all.

    Parameters
    ----------
    length : int
        Number of positions.
    d_model : int
        Number of dimensions. It must be even.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `length` is below 1, or if `d_model` is odd or below 2.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.5.
    """
    values = sinusoidal_positions(check_count("length", length), check_even("d_model", d_model)).numpy()
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 4.0)
        image = axes.imshow(values, cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
        axes.set(title="Sinusoidal encodings", xlabel="dimension", ylabel="position")
        figure.colorbar(image, ax=axes, label="value", shrink=0.9)
    return figure


def plot_encoding_curves(dimensions: Sequence[int] = (4, 5, 6, 7), length: int = 100, d_model: int = 20) -> "Figure":
    """Plot some dimensions of the encodings over the positions.

    An even dimension is a sine, and the odd dimension after it is the cosine of the same angle.

    Parameters
    ----------
    dimensions : sequence of int
        The dimensions to plot, counted from 0.
    length : int
        Number of positions.
    d_model : int
        Number of dimensions of the encoding. It must be even.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a number is out of range, if a dimension is not below `d_model`, or if `d_model` is odd.
    """
    values = sinusoidal_positions(check_count("length", length), check_even("d_model", d_model)).numpy()
    shown = check_sequence("dimensions", dimensions, "a list of numbers")
    shown = tuple(check_count("dimensions", dimension, 0, d_model - 1) for dimension in shown)
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 2.8)
        for index, dimension in enumerate(shown):
            style = "-" if dimension % 2 == 0 else "--"
            axes.plot(values[:, dimension], style, color=COLORS[index // 2 % len(COLORS)], label=str(dimension))
        title = f"Even dimensions are sines, odd dimensions cosines (d_model = {d_model})"
        axes.set(title=title, xlabel="position", ylabel="value")
        axes.grid(visible=True)
        axes.margins(x=0)
        figure.legend(title="dimension", loc="outside right center")
    return figure
