"""Figures that compare training curves, such as the curves of two initializations."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING

from dragoman.errors import ConfigError
from dragoman.visualization.arguments import check_sequence, check_text, value_text, wrong_type
from dragoman.visualization.figures.figure import COLORS, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[tuple[float, float]]
"""Points (step, value), sorted by step."""


def plot_training_curves(curves: Mapping[str, Curve], value: str = "loss", title: str = "Training") -> "Figure":
    """Plot named curves over the steps, with a legend.

    Parameters
    ----------
    curves : mapping of str to sequence of (float, float)
        Points (step, value) by the name of the curve. Empty curves are left out.
    value : str
        Label of the vertical axis.
    title : str
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a curve is something else than points (step, value).
    """
    if not isinstance(curves, Mapping):
        raise wrong_type("curves", "a dict of curves by their names", curves)
    checked = {check_text("curves", name): _check_curve("curves", points) for name, points in curves.items()}
    check_text("value", value)
    check_text("title", title)
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 3.0)
        for index, (name, points) in enumerate((name, points) for name, points in checked.items() if points):
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
    xavier : sequence of (float, float)
        Loss by step with Xavier uniform weights, Dragoman's initialization.
    default : sequence of (float, float)
        Loss by step with torch's default weights, which are smaller.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a curve is something else than points (step, value).
    """
    curves = {
        "Xavier uniform (Dragoman)": _check_curve("xavier", xavier),
        "torch default": _check_curve("default", default),
    }
    return plot_training_curves(curves, "training loss (nats per token)", "One model, two initializations")


def _check_curve(name: str, points: object) -> Curve:
    """The points of a curve."""
    expected = "a list of points (step, value)"
    found = check_sequence(name, points, expected)
    pairs = [check_sequence(name, point, expected) for point in found]
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(number, Real) for number in pair):
            raise ConfigError(f"`{name}` must be {expected}, but one point is {value_text(str(pair))}.")
    return pairs
