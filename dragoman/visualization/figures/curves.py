"""Pictures of training curves side by side, such as those of two initializations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.visualization.figures.figure import COLORS, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[tuple[float, float]]
"""Points (step, value) in the order of the steps."""


def plot_training_curves(curves: Mapping[str, Curve], value: str = "loss", title: str = "Training") -> "Figure":
    """Named curves over the steps, told apart by colour and by a name at each one's end. Empty curves are left out."""
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 3.0)
        for index, (name, points) in enumerate((name, points) for name, points in curves.items() if points):
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, color=COLORS[index % len(COLORS)], label=name)
        axes.set_xlabel("step")
        axes.set_ylabel(value)
        axes.set_title(title, parse_math=False)
        axes.grid(visible=True)
        axes.margins(x=0.01)
        if axes.lines:
            figure.legend(loc="outside right center")
    return figure


def plot_initializations(xavier: Curve, default: Curve) -> "Figure":
    """The loss of one model from Xavier uniform weights (ours) and from torch's own, which are smaller."""
    curves = {"Xavier uniform (Dragoman)": xavier, "torch's default": default}
    return plot_training_curves(curves, "training loss (nats a token)", "The same model from two starts")
