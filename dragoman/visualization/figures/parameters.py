"""Figure of a model's parameters by part."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from dragoman.config import ModelSettings
from dragoman.model.shapes import ParameterRow, parameter_rows
from dragoman.visualization.diagrams.architecture import AnyArchitecture, architecture_of
from dragoman.visualization.figures.figure import COLORS, drawing_style, new_figure
from dragoman.visualization.models import transformer_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AnyParameters: TypeAlias = "AnyArchitecture | Sequence[ParameterRow]"

# The first entry that matches a tensor's name gives the tensor's part and colour.
_PARTS = (
    ("norm", "layer norms", 7),
    ("encoder.feed_forward", "encoder: feed-forward", 4),
    ("decoder.feed_forward", "decoder: feed-forward", 5),
    ("encoder.self_attn", "encoder: self-attention", 0),
    ("decoder.self_attn", "decoder: self-attention", 1),
    ("decoder.cross_attn", "decoder: cross-attention", 3),
    ("projection.bias", "bias of the projection", 6),
    ("projection", "projection", 6),
)
_EMBEDDING_COLOR = 2


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


def plot_parameter_shares(model: AnyParameters) -> "Figure":
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
    with drawing_style():
        figure, (axes,) = new_figure(7.0, 3.2)
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


def draw_parameter_shares(axes: "Axes", rows: Sequence[ParameterRow]) -> None:
    """Draw `plot_parameter_shares` on the axes of another figure."""
    shares = parameter_shares(rows)
    total = sum(shares.values())
    places = range(len(shares))
    bars = axes.barh(places, list(shares.values()), color=[_color_of(part) for part in shares])
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
        roles = [_role_of(name) for name in (row.name, *row.shared_with)]
        return " = ".join(dict.fromkeys(roles))
    stack = row.name.split(".")[0]
    for mark, part, _ in _PARTS:
        if all(piece in row.name for piece in mark.split(".")) and (mark == "norm" or mark.split(".")[0] == stack):
            return part
    return "other"


def _role_of(name: str) -> str:
    if "positions" in name:
        return "learned positions"
    for mark, role in (("src_embedding", "source embedding"), ("tgt_embedding", "target embedding")):
        if mark in name:
            return role
    return "projection"


def _color_of(part: str) -> str:
    return next((COLORS[color] for _, name, color in _PARTS if name == part), COLORS[_EMBEDDING_COLOR])
