"""Figures of training: learning rates, label smoothing (sections 5.3 and 5.4 of the paper), curves and lengths."""

import os
from array import array
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import Config, TrainSettings, check_config
from dragoman.errors import ConfigError
from dragoman.text.corpus.corpus import Corpus
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.training.step.loss import smoothed_cross_entropy
from dragoman.training.step.optimizer import learning_rate
from dragoman.visualization import arguments
from dragoman.visualization.figures.figure import COLORS, count_steps, draw_histogram, new_figure, write_numbers

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
    arguments.check_count("vocab_size", vocab_size, 3)
    arguments.check_count("pad_id", pad_id, 0, vocab_size - 1)
    arguments.check_share("epsilon", epsilon)
    labels = [
        arguments.check_count("labels", label, 0, vocab_size - 1)
        for label in arguments.check_sequence("labels", labels, _LABELS)
    ]
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
    axes.imshow(targets.numpy(), vmin=0, vmax=1, aspect="auto")
    if targets.numel() <= 200:
        write_numbers(axes, targets.numpy(), digits=3)
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
    arguments.check_count("num_steps", num_steps)
    pairs = [
        arguments.check_sequence("shapes", pair, _PAIRS) for pair in arguments.check_sequence("shapes", shapes, _PAIRS)
    ]
    for pair in pairs:
        if len(pair) != 2:
            raise ConfigError(f"`shapes` must be {_PAIRS}, but one has {len(pair)} numbers.")
        for number in pair:
            arguments.check_count("shapes", number)
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
    arguments.check_count("d_model", d_model)
    arguments.check_count("num_steps", num_steps, 0)
    with new_figure(6.4, 2.8) as (figure, (axes,)):
        draw_schedule(axes, settings, d_model, num_steps)
    return figure


def check_train_settings(name: str, value: object) -> None:
    """Raise ConfigError for anything but `TrainSettings` that a run can have."""
    if not isinstance(value, TrainSettings):
        raise arguments.wrong_type(name, "TrainSettings", value, "Make them with `dragoman.TrainSettings()`.")
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
        raise arguments.wrong_type("curves", "a dict of curves by their names", curves)
    checked = {
        arguments.check_text("curves", name): arguments.check_curve("curves", points) for name, points in curves.items()
    }
    arguments.check_text("value", value)
    arguments.check_text("title", title)
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
        "Xavier uniform (Dragoman)": arguments.check_curve("xavier", xavier),
        "torch default": arguments.check_curve("default", default),
    }
    return plot_training_curves(curves, "training loss (nats per token)", "One model, two initializations")


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
    path = arguments.path_of("src", src)
    arguments.check_choice("unit", unit, ("words", "characters"))
    corpus = open_corpus(path) if tgt is None else open_aligned(path, arguments.path_of("tgt", tgt))
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
