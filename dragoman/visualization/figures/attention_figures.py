"""Figures of attention weights: the heads of a layer, and one head before and after training."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dragoman.display import shape_text
from dragoman.errors import ConfigError
from dragoman.visualization.arguments import check_choice, check_count, check_text, check_tokens, wrong_type
from dragoman.visualization.figures.figure import drawing_style, new_figure
from dragoman.visualization.figures.labels import readable_labels
from dragoman.visualization.figures.weight_matrix import draw_weights, side_inches
from dragoman.visualization.inspection.inspection import (
    ATTENTION_KINDS,
    KIND_NAMES,
    AttentionKind,
    Inspection,
    PackedAttention,
)
from dragoman.visualization.models import OneTranslator, model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dragoman.bundle import Model

_MOST_ACROSS = 4
_WIDEST_INCHES = 20.0


def plot_heads(
    translator: "OneTranslator | Inspection", text: str = "", layer: int | None = None, kind: AttentionKind = "cross"
) -> "Figure":
    """Translate a text, and plot the attention weights of all heads of one layer.

    Rows are queries, columns are keys, and one colour scale shows weights from 0 to 1.

    Parameters
    ----------
    translator : Translator, Model or Inspection
        The model, or a translation that `dragoman.inspect` has inspected.
    text : str
        The text to translate, if `translator` is no inspection.
    layer : int, optional
        Number of the layer, counted from 1 as on the inspection page. The default is the last layer.
    kind : {"cross", "encoder_self", "decoder_self"}
        Cross-attention, encoder self-attention or decoder self-attention.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If `translator` is something else or an ensemble, or if the model has no such layer.
    DataError
        If the text is empty or too long.

    Examples
    --------
    >>> plot_heads(translator, "Where is the station?", layer=2)
    """
    check_choice("kind", kind, ATTENTION_KINDS)
    if layer is not None:
        check_count("layer", layer)
    if isinstance(translator, Inspection):
        one = translator.of_kind(kind)
    else:
        one = _weights_of(model_of(translator), check_text("text", text), kind)
    number = one.num_layers if layer is None else check_count("layer", layer, 1, one.num_layers)
    return _draw_heads(one, number)


def _weights_of(trained: "Model", text: str, kind: AttentionKind) -> PackedAttention:
    from dragoman.visualization.inspection.inspector import observe_translation
    from dragoman.visualization.inspection.weights import collect_weights

    seen = observe_translation(trained, text)
    return next(one for one in collect_weights(seen.attention, seen.src.tokens, seen.tgt.tokens) if one.kind == kind)


def _draw_heads(one: PackedAttention, number: int) -> "Figure":
    from dragoman.visualization.inspection.weights import decode_weights

    weights = decode_weights(one)[number - 1]
    rows, columns = readable_labels(one.queries), readable_labels(one.keys)
    inches = side_inches(len(one.keys), 2.4, 14.0), side_inches(len(one.queries), 2.4, 10.0)
    across = min(_MOST_ACROSS, len(weights), int(_WIDEST_INCHES / inches[0]))
    down = math.ceil(len(weights) / across)
    with drawing_style():
        figure, axes = new_figure(across * inches[0] + 0.6, down * inches[1] + 0.4, down, across)
        for head, place in enumerate(axes):
            if head >= len(weights):
                place.set_axis_off()
                continue
            title = "mean of the heads" if one.mean_only else f"head {head + 1}"
            image = draw_weights(place, weights[head], (rows, columns), title, inches)
            place.set_aspect("auto")
        width, height = figure.get_size_inches()
        bar = min(4.0, 0.7 * height)  # inches; matplotlib makes it 20 times as long as wide
        figure.colorbar(image, ax=axes, label="weight", shrink=bar / height, fraction=min(0.15, 0.5 / width))
        figure.suptitle(f"{KIND_NAMES[one.kind].capitalize()}, layer {number}")
        if note := rows.note or columns.note:
            figure.supxlabel(note, fontsize=8)
    return figure


def plot_untrained_and_trained(
    untrained: ArrayLike, trained: ArrayLike, queries: Sequence[str], keys: Sequence[str]
) -> "Figure":
    """Plot the weights of one attention head before and after training, with one colour scale.

    Parameters
    ----------
    untrained, trained : array_like
        Attention weights from 0 to 1, of shape (queries, keys).
    queries : sequence of str
        Labels of the rows.
    keys : sequence of str
        Labels of the columns.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ConfigError
        If the weights are no numbers from 0 to 1, or if the numbers of labels do not match them.
    """
    shape = len(check_tokens("queries", queries)), len(check_tokens("keys", keys))
    both = [_check_weights(name, each, shape) for name, each in (("untrained", untrained), ("trained", trained))]
    rows, columns = readable_labels(queries), readable_labels(keys)
    side = min(4.6, 1.2 + 0.28 * max(len(queries), len(keys)))
    with drawing_style():
        figure, axes = new_figure(2 * side + 0.8, side, columns=2)
        for place, weights, title in zip(axes, both, ("Untrained", "Trained"), strict=True):
            image = draw_weights(place, weights, (rows, columns), title, (side, side))
        axes[0].set_ylabel("query")
        figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
        note = rows.note or columns.note
        figure.supxlabel("key" + (f"\n{note}" if note else ""), fontsize=8)
    return figure


def _check_weights(name: str, weights: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float64]:
    """The weights as an array of this shape, with numbers from 0 to 1."""
    try:
        found = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise wrong_type(name, "a table of numbers from 0 to 1", weights) from None
    if found.shape != shape:
        text = shape_text(found.shape) or "a single number"
        raise ConfigError(f"`{name}` must have the shape {shape_text(shape)} (`queries` x `keys`), but has {text}.")
    if not ((found >= 0) & (found <= 1 + 1e-6)).all():
        raise ConfigError(f"`{name}` must have weights from 0 to 1, but has {found.min():g} to {found.max():g}.")
    return found
