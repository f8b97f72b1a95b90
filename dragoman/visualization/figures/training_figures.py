"""Figures of training: learning rates, label smoothing (sections 5.3 and 5.4 of the paper), and curves to compare."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from dragoman.config import Config, TrainSettings, check_config
from dragoman.errors import ConfigError
from dragoman.training.step.loss import smoothed_cross_entropy
from dragoman.training.step.optimizer import learning_rate
from dragoman.visualization.arguments import (
    check_count,
    check_curve,
    check_sequence,
    check_share,
    check_text,
    wrong_type,
)
from dragoman.visualization.figures.figure import COLORS, SEQUENTIAL, count_steps, new_figure

_LABELS = "a list of token ids"


def target_distributions(labels: Sequence[int], vocab_size: int, epsilon: float, pad_id: int) -> Float[Tensor, "T V"]:
    """The target distribution of the loss for each label.

    The distributions are computed from the loss itself: its gradient with respect to the logits is p - q, where p is
    the model's distribution and q is the target distribution.

    Parameters
    ----------
    labels : sequence of int
        Token ids from 0 to `vocab_size` - 1.
    vocab_size : int
        Size of the vocabulary.
    epsilon : float
        Amount of label smoothing, from 0 to 1. 0 gives one-hot distributions.
    pad_id : int
        Id of the padding token.

    Returns
    -------
    Tensor
        One row per label, of shape (labels, vocab_size). Rows of padding are zero.

    Raises
    ------
    ConfigError
        If a label or `pad_id` is no token id, if there is no label, or if `epsilon` is not from 0 to 1.
    """
    check_count("vocab_size", vocab_size, 3)
    check_count("pad_id", pad_id, 0, vocab_size - 1)
    check_share("epsilon", epsilon)
    labels = [check_count("labels", label, 0, vocab_size - 1) for label in check_sequence("labels", labels, _LABELS)]
    if not labels:
        raise ConfigError("`labels` must have at least one token id, but is empty. Give some, such as (5, 2).")
    targets = torch.zeros(len(labels), vocab_size)
    counted = [row for row, label in enumerate(labels) if label != pad_id]
    if not counted:
        return targets
    logits = torch.zeros(len(counted), vocab_size, requires_grad=True)
    loss, _ = smoothed_cross_entropy(logits, torch.tensor([labels[row] for row in counted]), epsilon, pad_id)
    (gradient,) = torch.autograd.grad(loss, logits)
    targets[counted] = (torch.softmax(logits.detach(), -1) - gradient).clamp(min=0)
    # Exact zeros may come out as rounding errors, which would be drawn.
    targets[targets < 1e-6] = 0.0
    return targets


def plot_smoothed_targets(
    labels: Sequence[int] = (5, 2, 7, 4, 3, 0, 0), vocab_size: int = 8, epsilon: float = 0.4, pad_id: int = 0
) -> Figure:
    """Plot one-hot targets beside smoothed targets, one row per label.

    The column of the padding token and the rows of padding labels are zero.

    Parameters
    ----------
    labels : sequence of int
        Token ids from 0 to `vocab_size` - 1.
    vocab_size : int
        Size of the vocabulary.
    epsilon : float
        Amount of label smoothing, from 0 to 1.
    pad_id : int
        Id of the padding token.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If a label or `pad_id` is no token id, if there is no label, or if `epsilon` is not from 0 to 1.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 5.4.
    """
    smoothed = target_distributions(labels, vocab_size, epsilon, pad_id)
    one_hot = target_distributions(labels, vocab_size, 0.0, pad_id)
    with new_figure(8.2, 0.9 + 0.36 * len(labels), columns=2) as (figure, axes):
        _draw_targets(axes[0], one_hot, labels, pad_id, "One-hot")
        _draw_targets(axes[1], smoothed, labels, pad_id, f"Smoothed, epsilon = {epsilon:g}")
        axes[0].set_ylabel("position (label)")
    return figure


def _draw_targets(axes: Axes, targets: Tensor, labels: Sequence[int], pad_id: int, title: str) -> None:
    axes.imshow(targets.numpy(), cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto")
    if targets.numel() <= 200:
        for row, values in enumerate(targets.tolist()):
            for column, value in enumerate(values):
                color = "white" if value > 0.6 else "#b0b0b0" if value == 0 else "#222222"
                axes.text(column, row, f"{value:.3g}"[:5], ha="center", va="center", fontsize=7, color=color)
    names = [f"{row} ({'pad' if label == pad_id else label})" for row, label in enumerate(labels)]
    axes.set_yticks(range(len(labels)), names)
    columns = range(targets.size(1))
    axes.set_xticks(columns, ["pad" if column == pad_id else str(column) for column in columns])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(title=title, xlabel="token id")


_PAIRS = "a list of pairs of d_model and warm-up"
PAPERS = ((512, 4000), (512, 8000), (256, 4000), (1024, 4000))
_POINTS = 600


def plot_schedules(shapes: Sequence[tuple[int, int]] = PAPERS, num_steps: int = 20_000) -> Figure:
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
    with new_figure(6.4, 3.0) as (figure, (axes,)):
        for index, (d_model, warmup) in enumerate(pairs):
            settings = TrainSettings(schedule="noam", learning_rate=1.0, warmup_steps=warmup)
            _draw_rates(axes, settings, d_model, num_steps, COLORS[index % len(COLORS)], f"{d_model}, {warmup:,}")
        axes.set(title="The paper's learning rate", ylim=(0, None))
        if axes.lines:
            figure.legend(title="d_model, warm-up", loc="outside right center")
    return figure


def plot_schedule(settings: TrainSettings, d_model: int, num_steps: int = 0) -> Figure:
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
    with new_figure(6.4, 2.8) as (figure, (axes,)):
        draw_schedule(axes, settings, d_model, num_steps)
    return figure


def check_train_settings(name: str, value: object) -> None:
    """Raise ConfigError for anything but `TrainSettings` that a run can have."""
    if not isinstance(value, TrainSettings):
        raise wrong_type(name, "TrainSettings", value, "Make them with `dragoman.TrainSettings()`.")
    check_config(Config(train=value))


def draw_schedule(axes: Axes, settings: TrainSettings, d_model: int, num_steps: int = 0) -> None:
    """Draw `plot_schedule` on the axes of another figure."""
    num_steps = num_steps or settings.max_steps or 10 * max(settings.warmup_steps, 100)
    _draw_rates(axes, settings, d_model, num_steps, COLORS[0], settings.schedule)
    title = f"Learning rate: {settings.schedule}, warm-up {settings.warmup_steps:,} steps"
    axes.set(title=title, ylim=(0, None))


def _draw_rates(axes: Axes, settings: TrainSettings, d_model: int, num_steps: int, color: str, label: str) -> None:
    every = max(1, num_steps // _POINTS)
    steps = sorted({*range(1, num_steps + 1, every), min(max(settings.warmup_steps, 1), num_steps), num_steps})
    axes.plot(steps, [learning_rate(step, settings, d_model) for step in steps], color=color, label=label)
    axes.set(xlabel="step", ylabel="learning rate")
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, -3))
    count_steps(axes)
    axes.margins(x=0.01)
    axes.grid(visible=True)


Curve = Sequence[tuple[float, float]]
"""Points (step, value), sorted by step."""


def plot_training_curves(curves: Mapping[str, Curve], value: str = "loss", title: str = "Training") -> Figure:
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
    checked = {check_text("curves", name): check_curve("curves", points) for name, points in curves.items()}
    check_text("value", value)
    check_text("title", title)
    with new_figure(6.4, 3.0) as (figure, (axes,)):
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


def plot_initializations(xavier: Curve, default: Curve) -> Figure:
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
        "Xavier uniform (Dragoman)": check_curve("xavier", xavier),
        "torch default": check_curve("default", default),
    }
    return plot_training_curves(curves, "training loss (nats per token)", "One model, two initializations")
