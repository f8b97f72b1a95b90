"""Figures of the learning-rate schedule (Vaswani et al. 2017, section 5.3)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.config import Config, TrainSettings, check_config
from dragoman.errors import ConfigError
from dragoman.training.step.schedule import learning_rate
from dragoman.visualization.arguments import check_count, check_sequence, wrong_type
from dragoman.visualization.figures.figure import COLORS, count_steps, drawing_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PAIRS = "a list of pairs of d_model and warm-up"
PAPERS = ((512, 4000), (512, 8000), (256, 4000), (1024, 4000))
_POINTS = 600


def plot_schedules(shapes: Sequence[tuple[int, int]] = PAPERS, num_steps: int = 20_000) -> "Figure":
    """Plot the paper's learning rate over the steps for several pairs of d_model and warm-up.

    A wider model has a lower rate. A longer warm-up moves the peak to the right and down.

    Parameters
    ----------
    shapes : sequence of (int, int)
        Pairs of d_model and warm-up steps.
    num_steps : int
        Number of steps to plot.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a number is below 1, or if `shapes` has something else than pairs.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 5.3.
    """
    check_count("num_steps", num_steps)
    pairs = [check_sequence("shapes", pair, _PAIRS) for pair in check_sequence("shapes", shapes, _PAIRS)]
    for pair in pairs:
        if len(pair) != 2:
            raise ConfigError(f"`shapes` must be {_PAIRS}, but one has {len(pair)} numbers.")
        for number in pair:
            check_count("shapes", number)
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 3.0)
        for index, (d_model, warmup) in enumerate(pairs):
            settings = TrainSettings(schedule="noam", learning_rate=1.0, warmup_steps=warmup)
            _draw(axes, settings, d_model, num_steps, COLORS[index % len(COLORS)], f"{d_model}, {warmup:,}")
        axes.set(title="The paper's learning rate", ylim=(0, None))
        if axes.lines:
            figure.legend(title="d_model, warm-up", loc="outside right center")
    return figure


def plot_schedule(settings: TrainSettings, d_model: int, num_steps: int = 0) -> "Figure":
    """Plot the learning rate over the steps for some training settings.

    Parameters
    ----------
    settings : TrainSettings
        Training settings with a schedule, learning rate and warm-up.
    d_model : int
        Width of the model.
    num_steps : int
        Number of steps to plot. 0 stands for `max_steps`, or ten times the warm-up if `max_steps` is 0.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `settings` are no `TrainSettings`, or if a number is out of range.
    """
    check_train_settings("settings", settings)
    check_count("d_model", d_model)
    check_count("num_steps", num_steps, 0)
    with drawing_style():
        figure, (axes,) = new_figure(6.4, 2.8)
        draw_schedule(axes, settings, d_model, num_steps)
    return figure


def check_train_settings(name: str, value: object) -> None:
    """Raise ConfigError for anything but `TrainSettings` that a run can have."""
    if not isinstance(value, TrainSettings):
        raise wrong_type(name, "TrainSettings", value, "Make them with `dragoman.TrainSettings()`.")
    check_config(Config(train=value))


def draw_schedule(axes: "Axes", settings: TrainSettings, d_model: int, num_steps: int = 0) -> None:
    """Draw `plot_schedule` on the axes of another figure."""
    num_steps = num_steps or settings.max_steps or 10 * max(settings.warmup_steps, 100)
    _draw(axes, settings, d_model, num_steps, COLORS[0], settings.schedule)
    title = f"Learning rate: {settings.schedule}, warm-up {settings.warmup_steps:,} steps"
    axes.set(title=title, ylim=(0, None))


def _draw(axes: "Axes", settings: TrainSettings, d_model: int, num_steps: int, color: str, label: str) -> None:
    every = max(1, num_steps // _POINTS)
    steps = sorted({*range(1, num_steps + 1, every), min(max(settings.warmup_steps, 1), num_steps), num_steps})
    axes.plot(steps, [learning_rate(step, settings, d_model) for step in steps], color=color, label=label)
    axes.set(xlabel="step", ylabel="learning rate")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
    count_steps(axes)
    axes.margins(x=0.01)
    axes.grid(visible=True)
