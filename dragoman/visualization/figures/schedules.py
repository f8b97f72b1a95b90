"""Figures of the learning-rate schedule (Vaswani et al. 2017, section 5.3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.config import TrainSettings
from dragoman.training.step.schedule import learning_rate
from dragoman.visualization.figures.figure import COLORS, count_steps, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPERS = ((512, 4000), (512, 8000), (256, 4000), (1024, 4000))
_POINTS = 600


def plot_schedules(shapes: Sequence[tuple[int, int]] = PAPERS, num_steps: int = 20_000) -> "Figure":
    """Plot the paper's learning rate over the steps for several pairs of d_model and warm-up.

    A wider model has a lower rate. A longer warm-up moves the peak to the right and down.

    Parameters
    ----------
    shapes
        Pairs of d_model and warm-up steps.
    num_steps
        Number of steps to plot.

    Returns
    -------
    matplotlib.figure.Figure

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 5.3.
    """
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 3.0)
        for index, (d_model, warmup) in enumerate(shapes):
            settings = TrainSettings(schedule="noam", learning_rate=1.0, warmup_steps=warmup)
            _draw(axes, settings, d_model, num_steps, COLORS[index % len(COLORS)], f"{d_model}, {warmup:,}")
        axes.set(title="The paper's learning rate", ylim=(0, None))
        figure.legend(title="d_model, warm-up", loc="outside right center")
    return figure


def plot_schedule(settings: TrainSettings, d_model: int, num_steps: int = 0) -> "Figure":
    """Plot the learning rate over the steps for some training settings.

    Parameters
    ----------
    settings
        Training settings with a schedule, learning rate and warm-up.
    d_model
        Width of the model.
    num_steps
        Number of steps to plot. 0 stands for `max_steps`, or ten times the warm-up if `max_steps` is 0.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 2.8)
        draw_schedule(axes, settings, d_model, num_steps)
    return figure


def draw_schedule(axes: "Axes", settings: TrainSettings, d_model: int, num_steps: int = 0) -> None:
    """Draw `plot_schedule` on the axes of another figure."""
    num_steps = num_steps or settings.max_steps or 10 * max(settings.warmup_steps, 100)
    _draw(axes, settings, d_model, num_steps, COLORS[0], settings.schedule)
    title = f"Learning rate: {settings.schedule}, warm-up {settings.warmup_steps:,} steps"
    axes.set(title=title, ylim=(0, None))


def _draw(axes: "Axes", settings: TrainSettings, d_model: int, num_steps: int, color: str, label: str) -> None:
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, but is {num_steps}")
    every = max(1, num_steps // _POINTS)
    steps = sorted({*range(1, num_steps + 1, every), min(max(settings.warmup_steps, 1), num_steps), num_steps})
    axes.plot(steps, [learning_rate(step, settings, d_model) for step in steps], color=color, label=label)
    axes.set(xlabel="step", ylabel="learning rate")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
    count_steps(axes)
    axes.margins(x=0.01)
    axes.grid(visible=True)
