"""Figures of a model: position encodings (section 3.5 of the paper), parameters by part, and a configuration."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.config import ModelSettings, TrainSettings
from dragoman.model.embedding import sinusoidal_positions
from dragoman.model.shapes import ParameterRow, parameter_rows
from dragoman.visualization.arguments import check_count, check_even, check_sequence
from dragoman.visualization.diagrams.model_diagrams import AnyArchitecture, architecture_of, transformer_of
from dragoman.visualization.figures.figure import COLORS, DIVERGING, new_figure
from dragoman.visualization.figures.training_figures import check_train_settings, draw_schedule

AnyParameters: TypeAlias = "AnyArchitecture | Sequence[ParameterRow]"

# The first pattern that matches the start of a tensor's name gives the tensor's part and colour.
_PARTS = (
    (r".*norm", "layer norms", 7),
    (r"encoder\..*feed_forward", "encoder: feed-forward", 4),
    (r"decoder\..*feed_forward", "decoder: feed-forward", 5),
    (r"encoder\..*self_attn", "encoder: self-attention", 0),
    (r"decoder\..*self_attn", "decoder: self-attention", 1),
    (r"decoder\..*cross_attn", "decoder: cross-attention", 3),
    (r"projection\.bias", "bias of the projection", 6),
    (r"projection\.", "projection", 6),
)
# The first key in the name of an embedding gives its role. All names contain "", so what is left is the projection.
_ROLES = {"positions": "learned positions", "src_": "source embedding", "tgt_": "target embedding", "": "projection"}


def parameter_shares(model: AnyParameters) -> dict[str, int]:
    """Count parameters by part of the model.

    Parameters
    ----------
    model : Transformer, Translator, Model, ModelSettings or list of ParameterRow
        The model, or the rows of its parameter table. `ModelSettings` have the paper's vocabulary of 37,000 tokens.

    Returns
    -------
    dict[str, int]
        Number of parameters by part, in the order of the model with layer norms last. A tied tensor is one part.

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble.
    """
    shares = Counter[str]()
    for row in rows_of(model):
        shares[_part_of(row)] += row.count
    return {part: shares[part] for part in sorted(shares, key=lambda part: part == "layer norms")}


def plot_parameter_shares(model: AnyParameters) -> Figure:
    """Plot the parameters of each part of a model as a bar, with its count and share.

    Parameters
    ----------
    model : Transformer, Translator, Model, ModelSettings or list of ParameterRow
        The model, or the rows of its parameter table. `ModelSettings` have the paper's vocabulary of 37,000 tokens.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` is something else or an ensemble.
    """
    rows = rows_of(model)
    with new_figure(7.0, 3.2) as (figure, (axes,)):
        draw_parameter_shares(axes, rows)
    return figure


def rows_of(model: AnyParameters) -> Sequence[ParameterRow]:
    """The parameter table of a model, or the rows that are given. Raises ConfigError for anything else."""
    if isinstance(model, ModelSettings):
        one = architecture_of(model)
        return parameter_rows(model, one.src_vocab_size, one.tgt_vocab_size)
    if isinstance(model, list | tuple) and model and all(isinstance(row, ParameterRow) for row in model):
        return model
    return transformer_of(model).parameter_table()


def draw_parameter_shares(axes: Axes, rows: Sequence[ParameterRow]) -> None:
    """Draw `plot_parameter_shares` on the axes of another figure."""
    shares = parameter_shares(rows)
    total = sum(shares.values())
    places = range(len(shares))
    colors = {part: COLORS[color] for _, part, color in _PARTS}
    shown = [colors.get(part, COLORS[2]) for part in shares]  # the other parts are embeddings
    bars = axes.barh(places, list(shares.values()), color=shown)
    axes.bar_label(bars, [f"{count:,} ({count / total:.1%})" for count in shares.values()], padding=4, fontsize=8)
    axes.set_yticks(places, list(shares))
    axes.invert_yaxis()
    axes.set_xlim(0, max(shares.values()) * 1.35)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_title(f"{total:,} parameters by part")


def _part_of(row: ParameterRow) -> str:
    if "embedding" in row.name:
        names = (row.name, *row.shared_with)
        roles = [next(role for mark, role in _ROLES.items() if mark in name) for name in names]
        return " = ".join(dict.fromkeys(roles))
    return next((part for pattern, part, _ in _PARTS if re.match(pattern, row.name)), "other")


def plot_encodings(length: int = 100, d_model: int = 128) -> Figure:
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
    with new_figure(6.4, 4.0) as (figure, (axes,)):
        image = axes.imshow(values, cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
        axes.set(title="Sinusoidal encodings", xlabel="dimension", ylabel="position")
        figure.colorbar(image, ax=axes, label="value", shrink=0.9)
    return figure


def plot_encoding_curves(dimensions: Sequence[int] = (4, 5, 6, 7), length: int = 100, d_model: int = 20) -> Figure:
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
    with new_figure(6.4, 2.8) as (figure, (axes,)):
        for index, dimension in enumerate(shown):
            style = "-" if dimension % 2 == 0 else "--"
            axes.plot(values[:, dimension], style, color=COLORS[index // 2 % len(COLORS)], label=str(dimension))
        title = f"Even dimensions are sines, odd dimensions cosines (d_model = {d_model})"
        axes.set(title=title, xlabel="position", ylabel="value")
        axes.grid(visible=True)
        axes.margins(x=0)
        figure.legend(title="dimension", loc="outside right center")
    return figure


def plot_summary(model: "AnyParameters", settings: TrainSettings, d_model: int | None = None) -> Figure:
    """Plot the parameters of a model by part, above its learning-rate schedule.

    Parameters
    ----------
    model : Transformer, Translator, Model, ModelSettings or list of ParameterRow
        The model, as for `plot_parameter_shares`.
    settings : TrainSettings
        Training settings with a schedule, learning rate and warm-up.
    d_model : int, optional
        Width of the model, if `model` is a list of rows.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `model` or `settings` are something else, or if `d_model` is below 1.
    """
    rows = rows_of(model)
    check_train_settings("settings", settings)
    width = architecture_of(model).settings.d_model if d_model is None else check_count("d_model", d_model)
    with new_figure(7.0, 5.8, rows=2) as (figure, (above, below)):
        draw_parameter_shares(above, rows)
        draw_schedule(below, settings, width)
    return figure
