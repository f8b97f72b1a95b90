"""Figures that compare training curves, such as the curves of two initializations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.visualization.figures.figure import COLORS, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[tuple[float, float]]
"""Points (step, value), sorted by step."""


def plot_training_curves(curves: Mapping[str, Curve], value: str = "loss", title: str = "Training") -> "Figure":
    """Plot named curves over the steps, with a legend.

    Parameters
    ----------
    curves
        Points (step, value) by the name of the curve. Empty curves are left out.
    value
        Label of the vertical axis.
    title
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 3.0)
        for index, (name, points) in enumerate((name, points) for name, points in curves.items() if points):
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, color=COLORS[index % len(COLORS)], label=name)
        axes.set(xlabel="step", ylabel=value)
        axes.set_title(title, parse_math=False)
        axes.grid(visible=True)
        axes.margins(x=0.01)
        if axes.lines:
            figure.legend(loc="outside right center")
    return figure


def plot_initializations(xavier: Curve, default: Curve) -> "Figure":
    """Plot the training loss of one model with two initializations.

    Parameters
    ----------
    xavier
        Loss by step with Xavier uniform weights, Dragoman's initialization.
    default
        Loss by step with torch's default weights, which are smaller.

    Returns
    -------
    matplotlib.figure.Figure
    """
    curves = {"Xavier uniform (Dragoman)": xavier, "torch default": default}
    return plot_training_curves(curves, "training loss (nats per token)", "One model, two initializations")
